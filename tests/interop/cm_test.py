#!/usr/bin/env python3
"""Connections over rdma_cm between Verbena's librdmacm and Linux's connection manager, either side
the server. The short form leaves out combinations, VERBENA_INTEROP=long (make interop) runs all."""

import itertools

import linux
from linux import LONG, SIDES, Linux


class Programs(Linux):
    def both_ways(self, server, client, expected):
        for server_is in SIDES:
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
    linux.main()
