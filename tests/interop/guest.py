"""A QEMU guest whose kernel has Soft-RoCE, on a tap device of this test's network namespace. Boots
under software emulation in seconds; see scripts/guest-image and guest-init."""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HOST = "10.77.0.254"     # our end of the tap device
GUEST = "10.77.0.1"
HOST6 = "fd77::fe"
GUEST6 = "fd77::1"


class Missing(Exception):
    """What the guest needs and this machine does not have: tests are skipped."""


class Broken(Exception):
    """The guest is there and does not work: tests fail."""


def sh(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def find_image(folder, qemu="qemu-system-x86_64"):
    """vmlinuz and initrd.gz in `folder`, which scripts/guest-image makes (it needs the network)."""
    if shutil.which(qemu) is None:
        raise Missing(f"{qemu} is not installed")
    if os.path.exists(os.path.join(folder, "manifest")):
        return
    try:
        with open(os.path.join(folder, "missing")) as reason:
            raise Missing(reason.read().strip().replace("SKIP: ", ""))
    except FileNotFoundError:
        raise Missing(f"no guest image: scripts/guest-image {folder} makes it") from None


def archive(files, to):
    """A second initramfs with programs of the tests: name in the guest -> file here."""
    with tempfile.TemporaryDirectory() as root:
        for name, path in files.items():
            os.makedirs(root + os.path.dirname(name), exist_ok=True)
            shutil.copy(path, root + name)
        subprocess.run(f"find . | cpio -o -H newc -R 0:0 --quiet > {to}", shell=True, check=True,
                       cwd=root)


class Guest:
    """`files`: name in the guest -> file here, dynamically linked to libibverbs at most."""

    def __init__(self, image, mtu=4200, files=None):
        self.folder = tempfile.mkdtemp(prefix="verbena-guest-")
        self.serial = 0
        self.line = None
        initrd = os.path.join(self.folder, "initrd")
        archive(files or {}, initrd + ".files")
        with open(initrd, "wb") as both:
            for part in [os.path.join(image, "initrd.gz"), initrd + ".files"]:
                with open(part, "rb") as piece:
                    shutil.copyfileobj(piece, both)
                both.write(bytes(-both.tell() % 4))
        sh("ip tuntap add dev tap0 mode tap")
        sh(f"ip link set tap0 mtu {mtu} up")
        sh(f"ip addr add {HOST}/24 dev tap0 && ip -6 addr add {HOST6}/64 dev tap0 nodad")
        agent = os.path.join(self.folder, "agent")
        settings = f"verbena.mtu={mtu} verbena.ipv4={GUEST} verbena.ipv6={GUEST6}"
        self.process = subprocess.Popen([
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35,accel=tcg,usb=off",
            "-cpu", "qemu64,ssse3=on,sse4.1=on,sse4.2=on,popcnt=on", "-m", "512",
            "-kernel", os.path.join(image, "vmlinuz"), "-initrd", initrd,
            "-append", "console=ttyS0 panic=-1 quiet net.ifnames=0 mitigations=off nokaslr "
                       f"random.trust_cpu=on tsc=reliable {settings}",
            "-serial", "file:" + os.path.join(self.folder, "console"),
            "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=agent,path={agent},server=on,wait=off",
            "-device", "virtserialport,chardev=agent",
            "-netdev", "tap,id=net,ifname=tap0,script=no,downscript=no,vnet_hdr=off",
            # Offloads off: what the guest sends is what is on the wire.
            "-device", "virtio-net-pci,netdev=net,mac=52:54:00:77:00:01,csum=off,gso=off,"
                       "guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,"
                       "host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,rx_queue_size=1024"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            self.line = self._connect(agent, time.monotonic() + 20)
            self.line.settimeout(120)
            self.file = self.line.makefile("rb")
            words = self.file.readline().decode().split()
            if words[:1] != ["ready"]:
                raise Broken(f"its agent says {words}")
            self.kernel = words[1]
            if self.run("test -d /sys/class/infiniband/rxe0")[0] != 0:
                raise Broken("it has no Soft-RoCE device")
        except (OSError, AssertionError, Broken) as error:
            text = self.console()[-600:]
            text += self.close()[-600:]
            raise Broken(f"the guest did not boot: {error}; {text}") from error

    def _connect(self, path, deadline):
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(path)
                return line
            except OSError:
                line.close()
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def console(self):
        try:
            with open(os.path.join(self.folder, "console"), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _say(self, text):
        self.line.sendall(text.encode() + b"\n")

    def start(self, command):
        """Starts a shell command in the guest; the name to wait for it by."""
        self.serial += 1
        name = f"c{self.serial}"
        self._say(f"start {name} {command}")
        return name

    def _answer(self, name):
        words = self.file.readline().decode().split()
        assert words[:2] == ["done", name], words
        return int(words[2]), self.file.read(int(words[3])).decode(errors="replace")

    def wait(self, name, seconds=60):
        """(exit status, output). The guest's own `timeout` bounds commands; this bounds us."""
        self.line.settimeout(seconds)
        self._say(f"wait {name}")
        return self._answer(name)

    def run(self, command, seconds=60):
        return self.wait(self.start(f"timeout {seconds} {command}"), seconds + 20)

    def listens(self, name, port):
        self._say(f"listens {name} {port}")
        self._answer(name)

    def kill(self, name, signal="KILL"):
        self._say(f"kill {name} {signal}")

    def counters(self):
        """rxe's hw_counters that are not 0."""
        _, text = self.run("grep . /sys/class/infiniband/rxe0/ports/1/hw_counters/* /dev/null")
        return {os.path.basename(key): int(value)
                for key, value in re.findall(r"^(\S+):(\d+)$", text, re.M) if int(value)}

    def close(self):
        """What QEMU said."""
        if self.process.poll() is None:
            self.process.kill()
        said, _ = self.process.communicate()
        if self.line is not None:
            self.line.close()
        subprocess.run("ip link del tap0", shell=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        return said.decode(errors="replace")
