"""Live migration of QEMU by RDMA, unmodified: a guest (migrated_guest.c) that writes and checks its
memory all the time moves from one QEMU to another, with its memory registered as it goes and with
all of it pinned, and finds each word there as it left it."""

import json
import os
import pathlib
import re
import socket
import tempfile
import time

import harness
from ecosystem import ROADS, Ecosystem, compiled, long_form, needs
from harness import FAR, NEAR, FarSide

GUEST = ["-m32", "-ffreestanding", "-nostdlib", "-static", "-fno-pie", "-no-pie",
         "-fno-stack-protector", "-fcf-protection=none", "-Wl,-Ttext=0x100000",
         "-Wl,--build-id=none", "-Wl,-z,noexecstack"]
ROUNDS = 16     # of the guest's, in which it looks at every word


class Monitor:
    """QEMU's control socket (QMP)."""

    def __init__(self, path, process):
        self.line = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.line.connect(path)
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"no QEMU: {process.communicate()[0]}") from None
                time.sleep(0.05)
        self.line.settimeout(60)
        self.file = self.line.makefile("rb")
        self.file.readline()    # the greeting
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        request = {"execute": command, "arguments": arguments}
        self.line.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = json.loads(self.file.readline())
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise AssertionError(f"{command}: {answer['error']}")

    def close(self):
        self.file.close()
        self.line.close()


@needs("qemu-system-x86_64")
class Migration(Ecosystem):
    port = 4600

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="verbena-migration-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.guest = compiled("migrated_guest.c", options=GUEST)

    def qemu(self, name, *options, prefix=(), **variables):
        """A QEMU with the guest: its process, monitor, and the file of its serial port."""
        control, serial = (os.path.join(self.folder, f"{name}.{end}") for end in ("qmp", "serial"))
        command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
                   "-machine", "pc,accel=tcg,usb=off", "-m", "96", "-kernel", self.guest,
                   "-serial", f"file:{serial}", "-qmp", f"unix:{control},server=on,wait=off",
                   *options]
        process = self.start(command, prefix, **variables)
        monitor = Monitor(control, process)
        self.addCleanup(monitor.close)
        return process, monitor, serial

    def rounds(self, serial):
        """The rounds that the guest says it ended, here."""
        text = pathlib.Path(serial).read_text("ascii")
        self.assertNotIn("bad", text)
        return [int(line, 16) for line in re.findall(r"^[0-9a-f]{8}$", text, re.M)]

    def until(self, what, holds, seconds=120):
        deadline = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"not in {seconds} s: {what}")
            time.sleep(0.05)

    def migrate(self, pinned=False, address=NEAR, prefix=(), **variables):
        """Moves a running guest. What QEMU says of the move, and both ends' rounds after it."""
        Migration.port += 1
        uri = f"rdma:{address}:{Migration.port}"
        there = self.qemu("there", "-incoming", "defer", prefix=prefix, **variables)
        here = self.qemu("here", **variables)
        if pinned:
            for _, monitor, _ in (here, there):
                monitor.ask("migrate-set-capabilities",
                            capabilities=[{"capability": "rdma-pin-all", "state": True}])
        self.until("the guest runs", lambda: len(self.rounds(here[2])) >= 2)
        there[1].ask("migrate-incoming", uri=uri)
        here[1].ask("migrate", uri=uri)
        self.until("the migration ends", lambda: here[1].ask("query-migrate").get("status") not in
                   (None, "setup", "active", "device", "pre-switchover"))
        said = here[1].ask("query-migrate")
        self.assertEqual(said["status"], "completed", said)
        before = self.rounds(here[2])
        self.until("the guest looks at all of its memory",
                   lambda: len(self.rounds(there[2])) > ROUNDS)
        self.assertEqual(here[1].ask("query-status")["status"], "postmigrate")
        self.assertEqual(there[1].ask("query-status")["status"], "running")
        after = self.rounds(there[2])
        # Round by round, none lost and none twice.
        self.assertEqual(before + after, list(range(1, after[-1] + 1)))
        self.end_all()
        return said["ram"]

    def test_registered_as_it_goes(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                self.assertGreater(self.migrate(**env)["transferred"], 48 << 20)

    def test_all_pinned(self):
        ram = self.migrate(pinned=True)
        self.assertGreaterEqual(ram["transferred"], 96 << 20)

    @long_form("again and again, also under loss")
    def test_long(self):
        for _ in range(5):
            for road, env in ROADS.items():
                for pinned in (False, True):
                    with self.subTest(road=road, pinned=pinned):
                        self.migrate(pinned, **env)
        self.migrate(VERBENA_LOCAL="off", VERBENA_FAULT="drop=0.1%,seed=2")

    def test_nobody_waits_there(self):
        """The guest goes on where it is."""
        _, monitor, serial = self.qemu("here")
        with self.assertRaisesRegex(AssertionError, "RDMA ERROR: connecting to destination"):
            monitor.ask("migrate", uri=f"rdma:{NEAR}:4599")
        seen = len(self.rounds(serial))
        self.until("the guest goes on", lambda: len(self.rounds(serial)) > seen + 2)


@needs("qemu-system-x86_64")
class TwoHosts(Migration):
    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()
        cls.addClassCleanup(cls.far.close)

    def test_all_pinned(self):
        self.migrate(True, FAR, self.far.prefix())


for case in [name for name in dir(Migration) if name.startswith("test_")]:
    if case not in vars(TwoHosts):
        setattr(TwoHosts, case, None)


if __name__ == "__main__":
    harness.main()
