"""What `make demo` runs, in containers: two that share a network (a pod, --network container:) and
two with networks of their own; see container.py for what the containers lack."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

import harness
from ecosystem import Ecosystem
from harness import FAR, NEAR, FarSide, finish, free_port, users_build

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NOBODY = 65534


def many_users():
    """Whether user 65534 exists in this user namespace."""
    lines = [list(map(int, line.split())) for line in open("/proc/self/uid_map", encoding="ascii")]
    return any(first <= NOBODY < first + count for first, _, count in lines)


@unittest.skipUnless(os.getuid() == 0 and many_users(),
                     "needs root, to make the container of another user")
class Container(Ecosystem):
    def setUp(self):
        super().setUp()
        self.build = users_build()
        self.folders = [self.build]
        self.listeners = 0

    def contained(self, command, prefix=(), env=None, **variables):
        plain = {"PATH": "/usr/bin:/usr/sbin", **(env or {}), **variables}
        return self.start([sys.executable, str(HERE / "container.py"), str(NOBODY),
                           ":".join(self.folders), *command], prefix, env=plain)

    def verbena(self, *words):
        return [f"{self.build}/bin/verbena", *words]

    def output(self, command, seconds=60, **options):
        outcome = finish(self.contained(command, **options), seconds)
        self.assert_ok(outcome)
        return outcome.output


class Alone(Container):
    def test_what_the_container_is(self):
        """The conditions of the other tests hold."""
        said = self.output(["sh", "-c", "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):'"
                            " /proc/self/status; ulimit -l; ls /dev; ls /sys/class/infiniband"
                            " 2>&1; touch /x /usr/x 2>&1; ls /; ls /proc | grep -c '^[0-9]'; true"])
        self.assertRegex(said, r"^65534\n")
        self.assertIn("CapBnd:\t0000000000000000", said)
        self.assertIn("CapEff:\t0000000000000000", said)
        self.assertIn("NoNewPrivs:\t1", said)
        self.assertIn("Seccomp:\t2", said)
        self.assertIn("\n64\n", said)
        self.assertNotIn("infiniband\n", said)
        self.assertEqual(said.count("Read-only file system"), 2)

    def test_devices(self):
        said = self.output(self.verbena("devices"))
        self.assertRegex(said, r"(?m)^verbena\d+ on near0$")
        self.assertRegex(said, r"(?m)^verbena\d+ on lo$")
        said = self.output(self.verbena("run", "--", "ibv_devinfo"))
        self.assertIn("PORT_ACTIVE", said)
        said = self.output(self.verbena("doctor", "/usr/bin/ib_write_bw"))
        self.assertIn("program      /usr/bin/ib_write_bw", said)

    def test_the_deliberate_mistake(self):
        program = self.wrong_rkey()
        said = self.output(self.verbena("run", "--", program), VERBENA_LOG="explain")
        self.assertIn('success, target holds "thirty-two bytes over RDMA"', said)
        self.assertIn("remote access error (status 10)", said)
        self.assertRegex(said, r"verbena: .*no memory region or window has this key")

    def wrong_rkey(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-mistake-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        program = os.path.join(folder.name, "wrong_rkey")
        subprocess.run(["cc", "-o", program, ROOT / "examples" / "wrong_rkey.c", "-libverbs"],
                       check=True)
        self.folders.append(folder.name)
        return program

    def test_installed(self):
        """What the example's image holds: the installed files, and of libraries only libisal2's."""
        folder = tempfile.TemporaryDirectory(prefix="verbena-installed-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        subprocess.run(["cmake", "--install", harness.BUILD, "--prefix", folder.name], check=True,
                       stdout=subprocess.DEVNULL)
        self.folders = [folder.name]
        said = self.output([f"{folder.name}/bin/verbena", "run", "--", "ibv_devinfo"])
        self.assertIn("PORT_ACTIVE", said)
        needed = set()
        for path in pathlib.Path(folder.name).rglob("*"):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                said = subprocess.run(["readelf", "-d", path], capture_output=True, text=True)
                needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", said.stdout))
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2",
                                      "libisal.so.2", "libibverbs.so.1"})


class Examples(unittest.TestCase):
    """The Dockerfile, the compose file and the workflow, as far as no engine is needed."""

    folder = ROOT / "examples" / "container"

    def test_dockerfile(self):
        text = (self.folder / "Dockerfile").read_text().replace("\\\n", " ")
        steps = re.findall(r"^([A-Z]+) (.*)$", text, re.M)
        self.assertEqual([word for word, _ in steps].count("FROM"), 2)
        for word, rest in steps:
            if word == "COPY" and not rest.startswith("--from"):
                self.assertTrue((ROOT / rest.split()[0]).exists(), rest)
            if word in ("ENTRYPOINT", "CMD"):
                self.assertIsNotNone(self.program(json.loads(rest)[0]), rest)
            if word == "RUN":
                self.check_shell(rest.replace("/src/", ""))

    def program(self, name):
        return shutil.which(name, path=f"{os.environ['PATH']}:{harness.BUILD}/bin:/usr/sbin")

    def check_shell(self, text):
        """Each command's program, script and make target is there."""
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        for command in re.split(r"&&|;|\n|\bdo\b|\bdone\b", text):
            words = command.split()
            if not words or words[0] in ("echo", "rm", "until", "sleep"):
                continue
            self.assertTrue(self.program(words[0]) or os.access(ROOT / words[0], os.X_OK), command)
            if words[0] == "make":
                targets = [w for w in words[1:] if "=" not in w and w not in ("-C", "/src", "src")]
                subprocess.run(["make", "-n", *targets], cwd=ROOT, check=True,
                               stdout=subprocess.DEVNULL)
            if words[0] == "scripts/install-packages":
                lines = (ROOT / "scripts" / "packages.txt").read_text().splitlines()
                groups = {line.split()[0] for line in lines if len(line.split()) == 2}
                self.assertLessEqual(set(words[1:]), groups)

    def test_compose(self):
        path = self.folder / "compose.yml"
        services = yaml.safe_load(path.read_text())["services"]
        self.assertEqual(set(services), {"server", "client"})
        for name, service in services.items():
            context = (self.folder / service["build"]["context"]).resolve()
            self.assertEqual(context, ROOT)
            self.assertTrue((context / service["build"]["dockerfile"]).exists())
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertTrue(service["read_only"])
            self.assertTrue(all(isinstance(word, str) for word in service["command"]), name)
        self.assertIsNotNone(self.program(services["server"]["command"][0]))
        self.assertEqual(services["client"]["depends_on"], ["server"])
        self.check_shell(services["client"]["command"][0])

    def test_workflow(self):
        text = (ROOT / "examples" / "github-actions.yml").read_text()
        workflow = yaml.safe_load(text)
        self.assertEqual(workflow[True], ["push", "pull_request"])    # YAML 1.1 reads `on` as true
        steps = workflow["jobs"]["test"]["steps"]
        self.assertTrue(all(("run" in step) != ("uses" in step) for step in steps))
        for step in steps:
            if "run" in step:
                self.check_shell(step["run"])


class Pairs(Container):
    PROGRAMS = [("ib_write_bw", "-s", "1048576", "-n", "200"),
                ("ib_read_lat", "-s", "8", "-n", "200"),
                ("ib_send_bw", "-s", "65536", "-n", "200")]

    def device(self, interface, prefix=()):
        said = self.output(self.verbena("devices"), prefix=prefix)
        return re.search(rf"(?m)^(\S+) on {interface}$", said)[1]

    def pair(self, program, server_side, client_side, address, seconds=90):
        """`server_side`, `client_side`: (interface, prefix)."""
        port = str(free_port())
        ends = []
        for (interface, prefix), peer in ((server_side, []), (client_side, [address])):
            command = self.verbena("run", "--", program[0], "-F", "-p", port, "-d",
                                   self.device(interface, prefix), *program[1:], *peer)
            ends.append(self.contained(command, prefix))
            if not peer:
                harness.await_listener(int(port), ends[0], prefix, 30)
        outcomes = [finish(end, seconds) for end in reversed(ends)]
        self.assert_ok(*outcomes)
        self.assertRegex(outcomes[0].output, rf"(?m)^ {program[2]} +200 ")

    def test_two_of_one_network(self):
        for program in self.PROGRAMS:
            with self.subTest(program[0]):
                self.pair(program, ("near0", ()), ("near0", ()), NEAR)

    def listener(self, address, port, *options, prefix=()):
        """rping as a server; it listens when it has joined the other RDMA processes."""
        server = self.contained(self.verbena("run", "--", "rping", "-s", "-a", address, "-p", port,
                                             *options), prefix)
        deadline = time.monotonic() + 60
        joined = rf"rping \(pid \d+, uid {NOBODY}, slot \d+\)"
        before = self.listeners
        self.listeners += 1
        while len(re.findall(joined, self.output(self.verbena("stats"), prefix=prefix))) <= before:
            self.assertLess(time.monotonic(), deadline)
        return server

    def rping(self, address, prefix=()):
        port = str(free_port())
        server = self.listener(address, port, "-V", "-C", "20", prefix=prefix)
        client = self.output(self.verbena("run", "--", "rping", "-c", "-a", address, "-p", port,
                                          "-V", "-v", "-C", "20"))
        self.assert_ok(finish(server, 30))
        self.assertIn("ping data: rdma-ping-19: ", client)

    def test_connections_within_one_network(self):
        self.rping(NEAR)

    def test_the_first_container_ends(self):
        """The broker lives in the container that came first, and its standby too. When that one
        ends, another starts a broker, and newcomers reach who is left."""
        port = str(free_port())
        first = self.listener(NEAR, str(free_port()))
        second = self.listener(NEAR, port, "-V", "-C", "20")
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        client = self.output(self.verbena("run", "--", "rping", "-c", "-a", NEAR, "-p", port,
                                          "-V", "-v", "-C", "20"))
        self.assert_ok(finish(second, 30))
        self.assertIn("ping data: rdma-ping-19: ", client)


class TwoNetworks(Pairs):
    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()
        cls.addClassCleanup(cls.far.close)

    def test_two_networks(self):
        for program in self.PROGRAMS:
            with self.subTest(program[0]):
                self.pair(program, ("far0", self.far.prefix()), ("near0", ()), FAR)

    def test_connections_between_two_networks(self):
        self.rping(FAR, self.far.prefix())

    test_two_of_one_network = None
    test_connections_within_one_network = None
    test_the_first_container_ends = None


if __name__ == "__main__":
    harness.main()
