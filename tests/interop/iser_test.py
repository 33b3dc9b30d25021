#!/usr/bin/env python3
"""A disk over the wire: Linux's own iSER initiator in the guest (the kernel's ib_iser, Debian's
open-iscsi) and Debian's tgtd over Verbena here. The kernel registers memory for every request
(fast registration, keys that it invalidates) and tgtd reads and writes it: bytes are compared on
either side of the disk."""

import hashlib
import os
import subprocess
import tempfile
import time

import linux
from linux import DEVICE, HOST, LONG, Linux
import ecosystem
import harness

PORT = 3260
TARGET = "iqn.2001-04.org.example:disk"
INITIATOR = "iqn.2001-04.org.example:guest"
MIB = 1 << 20
SETTINGS = f"-m node -T {TARGET} -p {HOST}:{PORT}"


def pattern(seed, length):
    """What `guest_pattern` makes in the guest: numbered lines."""
    text = "".join(f"{seed} {i}\n" for i in range(length // 8))
    return text.encode()[:length]


def guest_pattern(seed, length, path):
    return (f"seq 0 {length // 8 - 1} | sed 's/^/{seed} /' | head -c {length} > {path}; "
            f"sha256sum < {path}")


@ecosystem.needs("/usr/sbin/tgtd", "/usr/sbin/tgtadm")
class Iser(Linux):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="verbena-iser-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.disk = os.path.join(self.folder, "disk")
        with open(self.disk, "wb") as disk:
            disk.truncate(32 * MIB)
        self.socket = os.path.join(self.folder, "tgtd")
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.addCleanup(self.log.close)
        self.serve()

    def serve(self):
        # tgtd's own port of iSCSI over TCP is of no use here, and another tgtd may have it.
        self.tgtd = subprocess.Popen(
            [harness.VERBENA, "run", *DEVICE, "--", "/usr/sbin/tgtd", "-f",
             "--iscsi", f"portal=127.0.0.1:{PORT}", "--iser", f"port={PORT}"],
            env={**os.environ, "TGT_IPC_SOCKET": self.socket}, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=subprocess.STDOUT)
        self.addCleanup(self.end_tgtd)
        limit = time.monotonic() + 20
        while not any(name.startswith("tgtd") for name in os.listdir(self.folder)):
            self.assertIsNone(self.tgtd.poll(), self.said())
            self.assertLess(time.monotonic(), limit, self.said())
            time.sleep(0.05)
        for step in [f"--op new --mode target --tid 1 -T {TARGET}",
                     f"--op new --mode logicalunit --tid 1 --lun 1 -b {self.disk}",
                     # It wants both: an address that may come, and a name.
                     "--op bind --mode target --tid 1 -I ALL",
                     f"--op bind --mode target --tid 1 -Q {INITIATOR}"]:
            self.tgtadm(step)

    def end_tgtd(self):
        self.tgtd.kill()
        self.tgtd.wait()

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def tgtadm(self, step):
        done = subprocess.run(["/usr/sbin/tgtadm", "--lld", "iser", *step.split()], text=True,
                              env={**os.environ, "TGT_IPC_SOCKET": self.socket},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout + self.said())
        return done.stdout

    def there(self, command, seconds=60):
        code, text = self.linux.wait(self.linux.start(command), seconds)
        if code != 0:
            text += self.linux.wait(self.linux.start("dmesg | tail -n 20"))[1] + self.said()
        self.assertEqual(code, 0, f"{command}\n{text}")
        return text

    def login(self):
        self.there("for module in /modules/iser/*.ko; do insmod $module; done; "
                   "echo root:x:0:0:::/bin/sh > /etc/passwd; "
                   "mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi /var/lock; "
                   f"echo InitiatorName={INITIATOR} > "
                   "/etc/iscsi/initiatorname.iscsi; : > /etc/iscsi/iscsid.conf")
        # iscsid asks for the name of who speaks to it, and answers once it is ready.
        self.iscsid = self.linux.start("iscsid -f")
        self.there("i=0; until iscsiadm -m session 2>&1 | grep -q 'No active' || [ $i = 200 ]; "
                   "do usleep 50000; i=$((i+1)); done")
        self.there(f"iscsiadm {SETTINGS} -I iser -o new")
        self.assertIn("successful", self.there(f"iscsiadm {SETTINGS} --login"))
        self.there("i=0; until [ -b /dev/sda ] || [ $i = 2000 ]; do usleep 10000; i=$((i+1)); "
                   "done; [ -b /dev/sda ]", 40)
        self.assertEqual(self.there("cat /sys/class/iscsi_session/session*/targetname").strip(),
                         TARGET)
    def test_a_disk(self):
        self.login()
        length = (8 if LONG else 2) * MIB
        digest = hashlib.sha256(pattern("there", length)).hexdigest()
        text = self.there(guest_pattern("there", length, "/tmp/pattern"))
        self.assertEqual(text.split()[0], digest)
        self.there("dd if=/tmp/pattern of=/dev/sda bs=65536 seek=16 conv=fsync", 120)
        with open(self.disk, "r+b") as disk:
            self.assertEqual(disk.read(MIB), bytes(MIB))
            self.assertEqual(hashlib.sha256(disk.read(length)).hexdigest(), digest)
            self.assertEqual(disk.read(MIB), bytes(MIB))
            # What the target's side puts on the disk, read there past its caches.
            disk.seek(16 * MIB)
            disk.write(pattern("here", length))
        self.there("echo 3 > /proc/sys/vm/drop_caches; blockdev --flushbufs /dev/sda")
        text = self.there(f"dd if=/dev/sda bs=65536 skip=256 count={length // 65536} "
                          "2> /dev/null | sha256sum", 120)
        self.assertEqual(text.split()[0], hashlib.sha256(pattern("here", length)).hexdigest())
        self.assertIn("I_T nexus: ", self.tgtadm("--op show --mode target"))
        self.assertIn("successful", self.there(f"iscsiadm {SETTINGS} --logout"))
        self.assertEqual(self.there("ls /sys/class/iscsi_session"), "")
        limit = time.monotonic() + 30
        while "I_T nexus: " in self.tgtadm("--op show --mode target"):
            self.assertLess(time.monotonic(), limit, self.said())
            time.sleep(0.05)


if __name__ == "__main__":
    linux.main()
