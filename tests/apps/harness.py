"""Runs unmodified programs over Verbena: a private network namespace for each test program (so
that tests neither meet each other nor a broker of the machine), pairs of server and client, and
their outputs. Everything started here is ended here, by pid."""

import atexit
import ctypes
import functools
import glob
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ.get("VERBENA_BUILD", "build"))
LIB = os.path.join(BUILD, "lib")
VERBENA = os.path.join(BUILD, "bin", "verbena")

CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000

NEAR = "10.99.0.1"      # this namespace's end of the cable
FAR = "10.99.0.2"       # the other end, once far_side() has moved it
NEAR6 = "fd99::1"
FAR6 = "fd99::2"


def sh(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)


def enter_private_network(mtu=1500):
    """A network namespace with lo and one veth cable (near: 10.99.0.1, fd99::1)."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNET if uid == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        print(f"SKIP: no network namespace here ({os.strerror(ctypes.get_errno())})")
        print("0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    if uid != 0:
        open("/proc/self/setgroups", "w").write("deny")
        open("/proc/self/uid_map", "w").write(f"0 {uid} 1")
        open("/proc/self/gid_map", "w").write(f"0 {gid} 1")
    sh("ip link set lo up")
    sh(f"ip link add near0 mtu {mtu} type veth peer name far0 mtu {mtu}")
    sh("sysctl -qw net.ipv6.conf.near0.accept_dad=0 net.ipv6.conf.far0.accept_dad=0 || true")
    sh("ip link set near0 up && ip link set far0 up")
    sh(f"ip addr add {NEAR}/24 dev near0 && ip -6 addr add {NEAR6}/64 dev near0 nodad")


class FarSide:
    """A second namespace that holds the cable's other end."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
        deadline = time.time() + 5
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == own:
            if time.time() > deadline:
                raise RuntimeError("the far namespace did not start")
            time.sleep(0.01)
        pid = self.holder.pid
        sh(f"ip link set far0 netns {pid}")
        for command in ["ip link set lo up", "ip link set far0 up",
                        f"ip addr add {FAR}/24 dev far0",
                        f"ip -6 addr add {FAR6}/64 dev far0 nodad"]:
            sh(f"nsenter -t {pid} -n {command}")
        time.sleep(0.2)

    def prefix(self):
        return ["nsenter", "-t", str(self.holder.pid), "-n"]

    def close(self):
        self.holder.kill()
        self.holder.wait()


def environment(**extra):
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = LIB
    env.pop("LD_PRELOAD", None)
    if "VERBENA_SANITIZER_RUNTIME" in env:
        env["LD_PRELOAD"] = env["VERBENA_SANITIZER_RUNTIME"]
    env.update({key: str(value) for key, value in extra.items()})
    return env


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def listening(port, prefix=()):
    """Whether somebody listens on the TCP port (in the namespace that `prefix` enters)."""
    text = subprocess.run([*prefix, "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                          capture_output=True, text=True).stdout
    return re.search(rf":{port:04X} [0-9A-F]+:0000 0A", text) is not None


def await_listener(port, server, prefix, seconds):
    """Waits until somebody listens on the TCP port, `server` (if any) ends, or the time is up.
    True: somebody listens."""
    deadline = time.time() + seconds
    while not listening(port, prefix):
        if (server is not None and server.poll() is not None) or time.time() > deadline:
            return False
        time.sleep(0.02)
    return True


def wait_listening(port, server=None, prefix=(), seconds=20):
    """Returns when somebody listens on the TCP port. Fails when it does not, or `server` ends."""
    if await_listener(port, server, prefix, seconds):
        return
    if server is not None and server.poll() is not None:
        raise AssertionError(f"the server ended with {server.returncode} before it listened:\n"
                             + server.stdout.read())
    raise AssertionError(f"nobody listens on port {port} after {seconds} s")


def brokers():
    """Pids of the broker processes of this network namespace."""
    own = os.readlink("/proc/self/ns/net")
    found = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        pid = int(path.split("/")[2])
        try:
            name = pathlib.Path(path).read_text()
            if name.startswith("verbena-broker") and os.readlink(f"/proc/{pid}/ns/net") == own:
                found.append(pid)
        except OSError:
            pass
    return sorted(found)


def wait_for_no_broker(seconds=10):
    """A broker outlives its last client by a moment; another user's programs must wait for it."""
    deadline = time.time() + seconds
    while brokers() and time.time() < deadline:
        time.sleep(0.05)


class Outcome:
    def __init__(self, process, output):
        self.code = process.returncode
        self.output = output


USERS_FOLDER = "/tmp"   # where programs of another user start


@functools.cache
def users_build():
    """The build as another user may read it: a clone in a closed home folder is copied out."""
    parents = pathlib.Path(BUILD).parents
    if all(folder.stat().st_mode & 0o005 == 0o005 for folder in [pathlib.Path(BUILD), *parents]):
        return BUILD
    copy = tempfile.mkdtemp(prefix="verbena-build-", dir=USERS_FOLDER)
    atexit.register(shutil.rmtree, copy)
    shutil.copytree(LIB, os.path.join(copy, "lib"), symlinks=True)
    os.mkdir(os.path.join(copy, "bin"))
    for name in ["verbena", "verbena-broker"]:
        shutil.copy(os.path.join(BUILD, "bin", name), os.path.join(copy, "bin"))
    sh(f"chmod -R a+rX {copy}")
    return copy


def root_is_a_mount():
    """Not so in a chroot, where no namespace's mounts can be made private."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == "/" for line in lines)


def start(command, env, prefix=(), user=None):
    if "--mode ns" in " ".join(command) and not root_is_a_mount():
        raise unittest.SkipTest("/ is no mount point (a chroot), which --mode ns needs")
    if user is not None:
        command = [word.replace(BUILD, users_build()) for word in command]
        env = {key: value.replace(BUILD, users_build()) for key, value in env.items()}
    return subprocess.Popen([*prefix, *command], env=env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", user=user, start_new_session=True,
                            cwd=USERS_FOLDER if user is not None else None)


def finish(process, seconds):
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\n[ended by the test after {seconds} s]"
    return Outcome(process, output)


def run(command, seconds=60, env=None, prefix=(), user=None):
    return finish(start(command, env or environment(), prefix, user), seconds)


def run_pair(server, client, port, seconds=60, env=None, server_prefix=(), client_prefix=(),
             user=None):
    """Starts the server, waits for its TCP port, runs the client; outcomes of both."""
    env = env or environment()
    serving = start(server, env, server_prefix, user)
    await_listener(port, serving, server_prefix, 20)
    asking = start(client, env, client_prefix, user)
    client_outcome = finish(asking, seconds)
    server_outcome = finish(serving, 20)
    return server_outcome, client_outcome


class AppTest(unittest.TestCase):
    maxDiff = None

    def assert_ok(self, *outcomes):
        for outcome in outcomes:
            if outcome.code != 0:
                text = "\n----\n".join(o.output for o in outcomes)
                self.fail(f"exit codes {[o.code for o in outcomes]}\n{text}")

    def pair(self, server, client, port, **options):
        outcomes = run_pair(server, client, port, **options)
        self.assert_ok(*outcomes)
        return outcomes


class CountingResult(unittest.TextTestResult):
    """Counts what passed: a failed setUpClass is an error and no test, and a test has as many
    failures as its subtests."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def run_tests():
    """Runs the tests of the main program, prints the line of counts, gives the exit status."""
    runner = unittest.TextTestRunner(verbosity=2, resultclass=CountingResult)
    result = unittest.main(module="__main__", exit=False, testRunner=runner).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    return 0 if failed == 0 and (result.passed or result.skipped) else 1


def main(mtu=1500):
    enter_private_network(mtu)
    sys.exit(run_tests())
