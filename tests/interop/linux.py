"""What the tests against Linux's Soft-RoCE share: one guest for all cases of a program, and pairs
of commands of which one runs there, on the kernel's rxe, and one here, over Verbena."""

import atexit
import contextlib
import functools
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "apps"))

import guest  # noqa: E402
import harness  # noqa: E402
from guest import GUEST, GUEST6, HOST, HOST6  # noqa: E402
from harness import AppTest, VERBENA  # noqa: E402

LONG = os.environ.get("VERBENA_INTEROP") == "long"
IMAGE = os.environ.get("VERBENA_GUEST", "guest")
DEVICE = ["--device", "verbena0=tap0"]
SIDES = ["guest", "host"]
# Programs of these tests, for both ends.
OWN = {name: os.path.join(harness.BUILD, "bin", name) for name in ["exchange", "connections"]}
REFUSED = r"REJECTED|event bl blka 8|Connection refused"  # nobody listens yet
V4 = {"guest": GUEST, "host": HOST}
V6 = {"guest": GUEST6, "host": HOST6}
# rxe's GIDs: link-local, IPv4, IPv6. Ours: IPv4, IPv6, link-local.
IPV4 = {"guest": 1, "host": 0}
IPV6 = {"guest": 2, "host": 1}


@functools.cache
def boot():
    """One guest for all tests, or the exception that says why there is none."""
    image = os.path.join(harness.BUILD, IMAGE)
    try:
        guest.find_image(image)
        linux = guest.Guest(image, files={f"/usr/bin/{name}": OWN[name] for name in OWN})
    except (guest.Missing, guest.Broken) as why:
        return why
    atexit.register(linux.close)
    print(f"\npeer: Linux {linux.kernel}, Soft-RoCE")
    return linux


def main():
    """The second kernel belongs to the long form."""
    if IMAGE != "guest" and not LONG:
        print(f"SKIP: the kernel of {IMAGE} is for the long form (make interop)")
        sys.exit(77)
    harness.main()


class Linux(AppTest):
    in_guest = ""  # before each command there

    def setUp(self):
        self.linux = boot()
        if isinstance(self.linux, guest.Missing):
            self.skipTest(str(self.linux))
        if isinstance(self.linux, guest.Broken):
            self.fail(str(self.linux))

    def here(self, command, **settings):
        env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        env.update(settings)
        program, *words = command.split()
        return harness.start([VERBENA, "run", *DEVICE, "--", OWN.get(program, program), *words],
                             env)

    def both(self, server, client, port, server_is, seconds=60, codes=(0, 0), **settings):
        """Server and client, one of them in the guest; their outputs, server's first. `port` is
        the TCP port on which the server listens when it is ready, `codes` how they shall end."""
        if server_is == "guest":
            serving = self.linux.start(f"{self.in_guest} timeout {seconds} {server}")
            self.linux.listens(serving, port)
            near = harness.finish(self.here(client, **settings), seconds)
            far = self.linux.wait(serving, seconds + 20)
            ended, texts = (far[0], near.code), (far[1], near.output)
        else:
            serving = self.here(server, **settings)
            harness.wait_listening(port, serving)
            far = self.linux.wait(self.linux.start(f"{self.in_guest} timeout {seconds} {client}"),
                                  seconds + 20)
            near = harness.finish(serving, seconds)
            ended, texts = (near.code, far[0]), (near.output, far[1])
        self.assertEqual(ended, codes,
                         f"server: {server}\n{texts[0]}\nclient: {client}\n{texts[1]}")
        return texts

    def pair(self, command, server_is, index, address, port=18515, **options):
        """`command` with {device} and {gid}; the client's gets the server's address."""
        def side(where):
            device = "rxe0" if where == "guest" else "verbena0"
            return command.format(device=device, gid=index[where], port=port)
        client_is = "host" if server_is == "guest" else "guest"
        return self.both(side(server_is), side(client_is) + " " + address[server_is], port,
                         server_is, **options)

    def assert_all_ok(self, texts, lines):
        """What exchange and connections print: a line for each scenario. `lines`: how many, of
        both together or of each."""
        said = [text.splitlines() for text in texts]
        self.assertEqual([line for each in said for line in each if not line.endswith(": ok")], [])
        counts = tuple(len(each) for each in said)
        self.assertEqual(sum(counts) if isinstance(lines, int) else counts, lines, said)

    def assert_row(self, text, size, iterations=100):
        """perftest's row of results: the size asked for, every iteration, and some speed or time
        (two decimals, which a slow guest may fill with zeros, but not in every column)."""
        row = re.search(rf"(?m)^ {size} +{iterations} +([\d. ]+)", text)
        self.assertIsNotNone(row, text)
        self.assertGreater(max(float(value) for value in row[1].split()), 0, text)

    def connect(self, server, client, server_is, address=V4, seconds=60, **settings):
        """Programs of rdma_cm, whose servers listen on no TCP port: the client waits a moment, and
        once more for longer when it came too early. `client` with {}: the server's address.
        Outputs, ours first."""
        client = client.format(address[server_is])
        for head_start in (1.5, 6):
            if server_is == "guest":
                serving = self.linux.start(f"timeout {seconds} {server}")
                time.sleep(head_start)
                near = harness.finish(self.here(client, **settings), seconds)
                if near.code != 0:
                    self.linux.kill(serving, "TERM")
                far = self.linux.wait(serving, seconds + 20)
            else:
                serving = self.here(server, **settings)
                time.sleep(head_start / 2)
                far = self.linux.run(client, seconds)
                if far[0] != 0:
                    serving.kill()
                near = harness.finish(serving, seconds)
            if not re.search(REFUSED, near.output + far[1]):
                break
        self.assertEqual((near.code, far[0]), (0, 0), f"here\n{near.output}\nthere\n{far[1]}")
        return near.output, far[1]

    @contextlib.contextmanager
    def losses_in_guest(self):
        """One in a hundred of the packets that the guest sends."""
        lose = "/usr/sbin/tc qdisc {} dev eth0 root netem loss 1%"
        self.assertEqual(self.linux.run(lose.format("add")), (0, ""))
        try:
            yield
        finally:
            self.linux.run(lose.format("del"))
