"""Unmodified programs over a library built with a sanitizer, whose runtime is preloaded into them
(harness.environment): what the library does wrong in a program of others is reported and ends
it."""

import os
import re

import harness
import rdmacm_test
from ecosystem import LONG
from harness import BUILD, NEAR, AppTest, environment, free_port, run

ROADS = {"local": {}, "wire": {"VERBENA_LOCAL": "off"}}
CROWD = os.path.join(BUILD, "bin", "cm_crowd")
LOSSES = {"losses": {"VERBENA_LOCAL": "off", "VERBENA_FAULT": "drop=1%,seed=7"}}


class Programs(AppTest):
    def go(self, roads, pattern, *command):
        """A server and a client; `pattern` is what the client prints in the end."""
        for road, extra in roads.items():
            with self.subTest(road=road):
                port = free_port()
                command_line = [*command, "-p", str(port)]
                outcomes = self.pair(command_line, [*command_line, NEAR], port,
                                     env=environment(**extra))
                self.assertRegex(outcomes[1].output, re.compile(pattern, re.M))
                for outcome in outcomes:
                    self.assertNotRegex(outcome.output, r"invalid data|Failed status|mismatch")

    def pingpong(self, name, *options):
        # Not with losses: a side that is done leaves, whether or not the peer heard its last ACK.
        self.go(ROADS, r"100 iters in [\d.]+ seconds", name, "-g", "0", "-n", "100", "-c", *options)

    def perftest(self, name, *options):
        self.go(ROADS | LOSSES, r"^\s*\d+\s+100\s+[\d.]+", name, "-F", "-n", "100", *options)

    def test_rc_pingpong_with_events(self):
        self.pingpong("ibv_rc_pingpong", "-e")

    def test_srq_pingpong(self):
        self.pingpong("ibv_srq_pingpong")

    def test_write(self):
        self.perftest("ib_write_bw")

    def test_read(self):
        self.perftest("ib_read_lat")

    def test_send(self):
        self.perftest("ib_send_bw", "-e")


class Connections(rdmacm_test.Cm):
    """The same for librdmacm."""

    def go(self, pattern, *command):
        to = [NEAR] if command[0].startswith("ib_") else ["-s", NEAR]
        for road, extra in ROADS.items():
            with self.subTest(program=command[0], road=road):
                for outcome in self.cm_pair([*command], [*command, *to], **extra):
                    self.assertRegex(outcome.output, re.compile(pattern, re.M))

    def test_connections(self):
        self.go("return status 0", "ucmatose", "-c", "3", "-C", "20", "-p", str(free_port()))

    def test_connections_leave_nothing(self):
        """10,000 in the long form; see connections_test."""
        rounds = 625 if LONG else 8
        for road, extra in ROADS.items():
            with self.subTest(road=road):
                outcome = run([CROWD, NEAR, str(rounds), "16"], 600, environment(**extra))
                self.assert_ok(outcome)
                self.assertIn(f"{16 * rounds} connections, 16 at once, nothing left",
                              outcome.output)

    def test_datagram_services(self):
        """Not udaddy: all its receives are to one buffer, which it reads meanwhile."""
        self.go(r"^ 2\s+100\s", "ib_send_lat", "-R", "-c", "UD", "-n", "100", "-p",
                str(free_port()))

    def test_rsockets(self):
        for program in ("rstream", "riostream"):
            self.go(r"^custom\s+68k\s", program, "-T", "b", "-T", "v", "-S", "70000", "-C", "20",
                    "-I", "2", "-p", str(free_port()))


if __name__ == "__main__":
    harness.main()
