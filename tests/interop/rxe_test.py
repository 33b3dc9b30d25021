#!/usr/bin/env python3
"""Verbena on this side of a cable, Linux's own Soft-RoCE on the other: a guest kernel on a tap
device. Both directions, every verb, every path MTU; bytes compared by the programs. The short form
leaves out combinations, VERBENA_INTEROP=long (make interop) runs all."""

import atexit
import functools
import itertools
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "apps"))

import guest  # noqa: E402
import harness  # noqa: E402
from guest import GUEST, GUEST6, HOST, HOST6  # noqa: E402
from harness import AppTest, VERBENA  # noqa: E402

DEVICE = ["--device", "verbena0=tap0"]
LONG = os.environ.get("VERBENA_INTEROP") == "long"
EXCHANGE = os.path.join(harness.BUILD, "bin", "exchange")
# rxe's GIDs: link-local, IPv4, IPv6. Ours: IPv4, IPv6, link-local.
IPV4 = {"guest": 1, "host": 0}
IPV6 = {"guest": 2, "host": 1}


@functools.cache
def boot():
    """One guest for all tests, or the exception that says why there is none."""
    image = os.path.join(harness.BUILD, "guest")
    try:
        guest.find_image(image)
        linux = guest.Guest(image, files={"/usr/bin/exchange": EXCHANGE})
    except (guest.Missing, guest.Broken) as why:
        return why
    atexit.register(linux.close)
    print(f"\npeer: Linux {linux.kernel}, Soft-RoCE")
    return linux


class ABrokenGuest(AppTest):
    def test_is_no_reason_to_skip(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ["vmlinuz", "initrd.gz", "manifest"]:
                with open(os.path.join(folder, name), "w") as file:
                    file.write("no kernel")
            try:
                guest.find_image(folder)
            except guest.Missing as missing:
                self.skipTest(str(missing))
            with self.assertRaisesRegex(guest.Broken, "did not boot"):
                guest.Guest(folder)


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
        return harness.start([VERBENA, "run", *DEVICE, "--", *command.split()], env)

    def both(self, server, client, port, server_is, seconds=60, **settings):
        """Server and client, one of them in the guest; their outputs, server's first."""
        if server_is == "guest":
            serving = self.linux.start(f"{self.in_guest} timeout {seconds} {server}")
            self.linux.listens(serving, port)
            near = harness.finish(self.here(client, **settings), seconds)
            far = self.linux.wait(serving, seconds + 20)
            codes, texts = (far[0], near.code), (far[1], near.output)
        else:
            serving = self.here(server, **settings)
            harness.wait_listening(port, serving)
            far = self.linux.wait(self.linux.start(f"{self.in_guest} timeout {seconds} {client}"),
                                  seconds + 20)
            near = harness.finish(serving, seconds)
            codes, texts = (near.code, far[0]), (near.output, far[1])
        self.assertEqual(codes, (0, 0),
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


V4 = {"guest": GUEST, "host": HOST}
V6 = {"guest": GUEST6, "host": HOST6}


class Verbs(Linux):
    def exchange(self, mtu, server_is, index, address, lines=20, **options):
        texts = self.pair(f"exchange {{device}} {{gid}} {mtu} {{port}}", server_is, index, address,
                          port=7777, **options)
        said = [line for text in texts for line in text.splitlines()]
        self.assertEqual([line for line in said if not line.endswith(": ok")], [])
        self.assertEqual(len(said), lines, said)

    def here(self, command, **settings):
        return super().here(command.replace("exchange", EXCHANGE, 1)
                            if command.startswith("exchange") else command, **settings)

    def test_every_byte_at_every_path_mtu(self):
        mtus = [256, 512, 1024, 2048, 4096] if LONG else [256, 4096]
        for mtu, server_is in itertools.product(mtus, ["guest", "host"]):
            with self.subTest(mtu=mtu, server=server_is):
                self.exchange(mtu, server_is, IPV4, V4)

    def test_every_byte_over_ipv6(self):
        for server_is in ["guest", "host"]:
            with self.subTest(server=server_is):
                self.exchange(1024, server_is, IPV6, V6)

    def test_every_byte_when_packets_are_lost(self):
        """One in a hundred, either way. UC loses messages then, as it should."""
        self.in_guest = "LOSSY=1"
        lose = "/usr/sbin/tc qdisc {} dev eth0 root netem loss 1%"
        self.assertEqual(self.linux.run(lose.format("add")), (0, ""))
        try:
            for server_is in ["guest", "host"]:
                with self.subTest(server=server_is):
                    self.exchange(1024, server_is, IPV4, V4, lines=18, seconds=240, LOSSY="1",
                                  VERBENA_FAULT="drop=1%,seed=5")
        finally:
            self.linux.run(lose.format("del"))


class Programs(Linux):
    def test_pingpongs(self):
        for kind in ["rc", "uc", "ud", "srq"]:
            options = "" if kind == "ud" else "-m 1024"
            if kind in ["rc", "srq"]:
                options += " -c"
            for server_is in ["guest", "host"]:
                with self.subTest(kind=kind, server=server_is):
                    texts = self.pair(f"ibv_{kind}_pingpong -d {{device}} -g {{gid}} -n 200 "
                                      f"-s 2000 {options} -p {{port}}".replace(
                                          "-s 2000", "-s 1000" if kind == "ud" else "-s 20000"),
                                      server_is, IPV4, V4, port=18516)
                    for text in texts:
                        self.assertIn("200 iters in", text)

    def test_perftest(self):
        sides = ["guest", "host"]
        for verb, what in itertools.product(["write", "read", "send", "atomic"], ["bw", "lat"]):
            for server_is in sides if LONG else [sides[what == "bw"]]:
                with self.subTest(verb=verb, what=what, server=server_is):
                    size = "" if verb == "atomic" else "-s 8192 " if what == "bw" else "-s 64 "
                    self.pair(f"ib_{verb}_{what} -d {{device}} -x {{gid}} -F -n 200 {size}"
                              "-p {port}", server_is, IPV4, V4)

    def test_perftest_over_uc_and_ud(self):
        sides = ["guest", "host"]
        for command in ["ib_send_bw -c UC -s 4096", "ib_write_bw -c UC -s 4096",
                        "ib_send_bw -c UD -s 1024", "ib_send_lat -c UD -s 64"]:
            for server_is in sides if LONG else [sides["-c UC" in command]]:
                with self.subTest(command=command, server=server_is):
                    self.pair(f"{command} -d {{device}} -x {{gid}} -F -n 100 -p {{port}}",
                              server_is, IPV4, V4)

    def test_a_killed_peer(self):
        """The computed time: eight tries of 4.096 us * 2^14, with their slack on a slow guest."""
        command = "ib_write_bw -d {} -x {} -F -D 30 -p 18515"
        serving = self.linux.start(command.format("rxe0", 1))
        self.linux.listens(serving, 18515)
        client = self.here(command.format("verbena0", 0) + " " + GUEST)
        time.sleep(6)
        self.assertIsNone(client.poll())
        self.linux.kill(serving)
        killed = time.monotonic()
        outcome = harness.finish(client, 20)
        self.assertLess(time.monotonic() - killed, 10, outcome.output)
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("Failed status 12", outcome.output)
        self.linux.wait(serving)


class Connections(Linux):
    """rdma_cm: Linux's connection manager there, ours here. Servers of it listen on no TCP port, so
    the client waits a moment, and once more for longer when it came too early."""

    def connect(self, server, client, server_is, seconds=60):
        """`client` with {}: the server's address. Outputs, ours first."""
        client = client.format(V4[server_is])
        for head_start in (1.5, 6):
            if server_is == "guest":
                serving = self.linux.start(f"timeout {seconds} {server}")
                time.sleep(head_start)
                near = harness.finish(self.here(client), seconds)
                if near.code != 0:
                    self.linux.kill(serving, "TERM")
                far = self.linux.wait(serving, seconds + 20)
            else:
                serving = self.here(server)
                time.sleep(head_start / 2)
                far = self.linux.run(client, seconds)
                if far[0] != 0:
                    serving.kill()
                near = harness.finish(serving, seconds)
            if "REJECTED" not in near.output + far[1]:
                break
        self.assertEqual((near.code, far[0]), (0, 0), f"here\n{near.output}\nthere\n{far[1]}")
        return near.output, far[1]

    def both_ways(self, server, client, expected):
        for server_is in ["guest", "host"]:
            with self.subTest(server=server, on=server_is):
                for text in self.connect(server, client, server_is):
                    self.assertRegex(text, expected)

    def test_connections(self):
        options = "-c 3 -C 20 -S 4000"
        self.both_ways(f"ucmatose {options}", f"ucmatose -s {{}} {options}", "return status 0")
        self.both_ways("rdma_server", "rdma_client -s {}", "end 0")
        options = "-v -V -C 10 -S 300"
        self.both_ways(f"rping -s {options}", f"rping -c -a {{}} {options}", "rdma-ping-9: ")

    def test_datagram_services(self):
        options = "-c 2 -C 20 -S 900"
        self.both_ways(f"udaddy {options}", f"udaddy -s {{}} {options}", "return status 0")

    def test_rsockets(self):
        """Bytes verified by the programs, those in mapped memory (riostream) too."""
        for program, mode in itertools.product(["rstream", "riostream"], "bn" if LONG else "b"):
            command = f"{program} -T {mode} -T v -S 70000 -C 20 -I 2"
            self.both_ways(command, command + " -s {}", r"(?m)^custom\s+68k\s")


if __name__ == "__main__":
    harness.main()
