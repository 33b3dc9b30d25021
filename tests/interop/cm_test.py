#!/usr/bin/env python3
"""Connections over rdma_cm between Verbena's librdmacm and Linux's connection manager, either side
the server. The short form leaves out combinations, VERBENA_INTEROP=long (make interop) runs all."""

import itertools
import os

import linux
from linux import LONG, SIDES, V4, V6, Linux
import harness

PORT = 7470


class Events(Linux):
    """Our own program at both ends (connections.c): every event, status, private byte and message
    of connections that are made, refused, raced and killed."""

    def meet(self, server_is, address=V4, lines=(7, 10), environment="", **options):
        command = f"connections {PORT}"
        self.in_guest = environment
        texts = self.both(command, f"{command} {address[server_is]}", PORT, server_is, **options,
                          **dict(setting.split("=") for setting in environment.split()))
        self.assert_all_ok(texts, lines)

    def test_every_event(self):
        for server_is in SIDES:
            with self.subTest(server=server_is):
                self.meet(server_is)

    def test_every_event_over_ipv6(self):
        for server_is in SIDES:
            with self.subTest(server=server_is):
                self.meet(server_is, V6)

    def test_every_event_when_packets_are_lost(self):
        with self.losses_in_guest():
            for server_is in SIDES:
                with self.subTest(server=server_is):
                    self.meet(server_is, seconds=240, VERBENA_FAULT="drop=1%,seed=5")

    def test_a_killed_peer(self):
        """The other end hears of it: of a connection, and of a request that is not answered."""
        for server_is, victim, early in itertools.product(SIDES, ["server", "client"], [0, 1]):
            with self.subTest(server=server_is, victim=victim, early=early):
                in_guest = (victim == "server") == (server_is == "guest")
                killed = 137 if in_guest else -9
                self.meet(server_is, lines=1,
                          codes=(killed, 0) if victim == "server" else (0, killed),
                          environment=f"VICTIM={victim}" + " EARLY=1" * early)


class Programs(Linux):
    def both_ways(self, server, client, expected, address=V4):
        """`server` may have {} too: the address it listens on."""
        for server_is in SIDES:
            with self.subTest(server=server, on=server_is):
                own = server.format(address[server_is])
                for text in self.connect(own, client, server_is, address):
                    self.assertRegex(text, expected)

    def test_connections(self):
        options = "-c 3 -C 20 -S 4000"
        self.both_ways(f"ucmatose {options}", f"ucmatose -s {{}} {options}", "return status 0")
        self.both_ways("rdma_server", "rdma_client -s {}", "end 0")
        options = "-v -V -C 10 -S 300"
        self.both_ways(f"rping -s {options}", f"rping -c -a {{}} {options}", "rdma-ping-9: ")

    def test_connections_over_ipv6(self):
        options = "-v -V -C 10 -S 300"
        self.both_ways(f"rping -s -a {{}} {options}", f"rping -c -a {{}} {options}",
                       "rdma-ping-9: ", V6)

    def test_perftest(self):
        """Queue pairs made by rdma_cm. The client's row: size, iterations, more than no speed."""
        late = {"LD_PRELOAD": os.path.join(harness.BUILD, "tests", "interop",
                                           "liblate_connect.so")}
        for verb, what in itertools.product(["write", "read", "send", "atomic"], ["bw", "lat"]):
            size = 8 if verb == "atomic" else 10001
            command = f"ib_{verb}_{what} -R -F -n 100" + f" -s {size}" * (verb != "atomic")
            for server_is in SIDES if LONG else [SIDES[what == "bw"]]:
                with self.subTest(command=command, on=server_is):
                    near, far = self.connect(command, command + " {}", server_is,
                                             **late if server_is == "guest" else {})
                    text = near if server_is == "guest" else far
                    self.assert_row(text, size)

    def test_datagram_services(self):
        options = "-c 2 -C 20 -S 900"
        self.both_ways(f"udaddy {options}", f"udaddy -s {{}} {options}", "return status 0")

    def test_rsockets(self):
        """Bytes verified by the programs, those in mapped memory (riostream) too."""
        for program, mode in itertools.product(["rstream", "riostream"], "bn" if LONG else "b"):
            command = f"{program} -T {mode} -T v -S 70000 -C 20 -I 2"
            self.both_ways(command, command + " -s {}", r"(?m)^custom\s+68k\s")


if __name__ == "__main__":
    linux.main()
