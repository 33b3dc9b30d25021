#!/usr/bin/env python3
"""Verbena on this side of a cable, Linux's own Soft-RoCE on the other: a guest kernel on a tap
device. Both directions, every verb, every path MTU; bytes compared by the programs. The short form
leaves out combinations, VERBENA_INTEROP=long (make interop) runs all."""

import itertools
import os
import tempfile
import time

import linux
from linux import GUEST, IPV4, IPV6, LONG, SIDES, V4, V6, Linux
import guest
import harness

MTUS = [256, 512, 1024, 2048, 4096]
PERFTEST = {"RC": ["write", "read", "send", "atomic"], "UC": ["write", "send"], "UD": ["send"]}


class ABrokenGuest(harness.AppTest):
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


class Verbs(Linux):
    def exchange(self, mtu, server_is, index, address, lines=20, **options):
        texts = self.pair(f"exchange {{device}} {{gid}} {mtu} {{port}}", server_is, index, address,
                          port=7777, **options)
        self.assert_all_ok(texts, lines)

    def test_every_byte_at_every_path_mtu(self):
        for mtu, server_is in itertools.product(MTUS if LONG else [256, 4096], SIDES):
            with self.subTest(mtu=mtu, server=server_is):
                self.exchange(mtu, server_is, IPV4, V4)

    def test_every_byte_over_ipv6(self):
        for server_is in SIDES:
            with self.subTest(server=server_is):
                self.exchange(1024, server_is, IPV6, V6)

    def test_every_byte_when_packets_are_lost(self):
        """One in a hundred, either way. UC loses messages then, as it should."""
        self.in_guest = "LOSSY=1"
        with self.losses_in_guest():
            for server_is in SIDES:
                with self.subTest(server=server_is):
                    self.exchange(1024, server_is, IPV4, V4, lines=18, seconds=240, LOSSY="1",
                                  VERBENA_FAULT="drop=1%,seed=5")


class Programs(Linux):
    def test_pingpongs(self):
        for kind in ["rc", "uc", "ud", "srq"]:
            options = "" if kind == "ud" else "-m 1024"
            if kind in ["rc", "srq"]:
                options += " -c"
            for server_is in SIDES:
                with self.subTest(kind=kind, server=server_is):
                    texts = self.pair(f"ibv_{kind}_pingpong -d {{device}} -g {{gid}} -n 200 "
                                      f"-s 2000 {options} -p {{port}}".replace(
                                          "-s 2000", "-s 1000" if kind == "ud" else "-s 20000"),
                                      server_is, IPV4, V4, port=18516)
                    for text in texts:
                        self.assertIn("200 iters in", text)

    def perftest(self, service, verb, what, mtu, server_is):
        """The client's row of results: the size asked for, every iteration, more than no speed."""
        size = 8 if verb == "atomic" else mtu if service == "UD" else 3 * mtu + 1
        choice = "" if verb in ["read", "atomic"] else f"-c {service} "
        choice += "" if verb == "atomic" else f"-s {size} "
        _, text = self.pair(f"ib_{verb}_{what} -d {{device}} -x {{gid}} -m {mtu} -F -n 100 "
                            f"{choice}-p {{port}}", server_is, IPV4, V4)
        self.assert_row(text, size)

    def test_perftest(self):
        """The short form is a walk through the combinations that meets each value."""
        combinations = [(service, verb, what) for service, verbs in PERFTEST.items()
                        for verb, what in itertools.product(verbs, ["bw", "lat"])]
        for i, combination in enumerate(combinations):
            ways = itertools.product(MTUS, SIDES)
            for mtu, server_is in ways if LONG else [(MTUS[i % 5], SIDES[i % 2])]:
                with self.subTest(of=combination, mtu=mtu, server=server_is):
                    self.perftest(*combination, mtu, server_is)

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


if __name__ == "__main__":
    linux.main()
