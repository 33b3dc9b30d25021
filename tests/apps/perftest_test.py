"""Debian's perftest, unmodified: every verb over every transport with the options people use. The
assertions are the exit codes of both ends and the figures of the result tables."""

import os
import re
import unittest

import harness
from harness import (FAR, NEAR, VERBENA, AppTest, FarSide, environment, free_port,
                     wait_for_no_broker)

TABLE_ROW = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)((?:[ \t]+[\d.]+)+)[ \t]*$", re.M)


def rows(output):
    """The result rows: (bytes, iterations, {column: figure})."""
    head, _, body = output.partition("#bytes")[2].partition("\n")
    # "BW peak[MB/sec]" is one column, as are "99% percentile[usec]" and "tps average".
    columns = re.findall(r"(BW peak|BW average|MsgRate|t_\w+|[\d.]+% percentile|tps average)", head)
    return [(int(size), int(done), dict(zip(columns, map(float, figures.split()))))
            for size, done, figures in TABLE_ROW.findall(body)]


class Perftest(AppTest):
    def go(self, name, *options, address=NEAR, iterations="200", sizes=1, seconds=120, **more):
        port = free_port()
        command = [name, "-F", "-p", str(port), *options]
        if "-D" not in options:
            command += ["-n", iterations]
        outcomes = self.pair(command, [*command, address], port, seconds=seconds, **more)
        found = rows(outcomes[1].output)
        self.assertEqual(len(found), sizes, outcomes[1].output)
        for _, done, figures in found:
            self.assertGreaterEqual(done, 5)
            self.check_figures(figures, outcomes[1].output)
        return found

    def check_figures(self, figures, output):
        """No table of zeros: MB/s of small messages round to 0, messages a second do not."""
        if "MsgRate" in figures:
            self.assertGreater(figures["MsgRate"], 0, output)
        elif "tps average" in figures:
            self.assertGreater(figures["tps average"], 0, output)
        else:
            self.assertGreater(figures["t_min"], 0, output)
            self.assertLessEqual(figures["t_min"], figures["t_typical"], output)
            self.assertLessEqual(figures["t_typical"], figures["t_max"], output)
            self.assertLessEqual(figures["t_avg"], figures["t_max"], output)


BANDWIDTH = ["ib_write_bw", "ib_read_bw", "ib_send_bw"]
LATENCY = ["ib_write_lat", "ib_read_lat", "ib_send_lat"]


class ReliableConnection(Perftest):
    def test_every_program(self):
        for name in BANDWIDTH + LATENCY + ["ib_atomic_bw", "ib_atomic_lat"]:
            with self.subTest(program=name):
                self.go(name)

    def test_every_program_over_the_wire(self):
        for name in BANDWIDTH + LATENCY + ["ib_atomic_bw", "ib_atomic_lat"]:
            with self.subTest(program=name):
                self.go(name, env=environment(VERBENA_LOCAL="off"))

    def test_fetch_and_add(self):
        self.go("ib_atomic_bw", "-A", "FETCH_AND_ADD")
        self.go("ib_atomic_lat", "-A", "CMP_AND_SWAP")

    def test_all_sizes(self):
        for name in BANDWIDTH:
            with self.subTest(program=name):
                self.go(name, "-a", sizes=23)

    def test_all_sizes_latency(self):
        self.go("ib_send_lat", "-a", sizes=23)

    def test_bidirectional(self):
        for name in BANDWIDTH:
            with self.subTest(program=name):
                self.go(name, "-b")

    def test_events(self):
        # perftest has no event mode for WRITE
        for name in ["ib_read_bw", "ib_send_bw", "ib_atomic_bw", "ib_send_lat", "ib_read_lat",
                     "ib_atomic_lat"]:
            with self.subTest(program=name):
                self.go(name, "-e")

    def test_eight_queue_pairs(self):
        for name in BANDWIDTH:
            with self.subTest(program=name):
                self.go(name, "-q", "8")

    def test_shared_receive_queue(self):
        self.go("ib_send_bw", "--use-srq")
        self.go("ib_send_lat", "--use-srq")
        self.go("ib_send_bw", "--use-srq", "-q", "4")

    def test_inline(self):
        self.go("ib_send_lat", "-s", "64", "-I", "64")
        self.go("ib_write_lat", "-s", "128", "-I", "128")
        self.go("ib_write_bw", "-s", "64", "-I", "64")

    def test_one_byte(self):  # perftest 4.5 itself refuses -s 0
        for name in ("ib_send_bw", "ib_write_bw", "ib_send_lat", "ib_read_lat"):
            with self.subTest(program=name):
                self.go(name, "-s", "1")

    def test_old_post_send(self):
        self.go("ib_write_bw", "--use_old_post_send")
        self.go("ib_send_lat", "--use_old_post_send")

    def test_post_list_and_moderation(self):
        self.go("ib_write_bw", "-l", "16", iterations="320")
        self.go("ib_send_bw", "-Q", "16", iterations="320")

    def test_on_demand_paging(self):
        self.go("ib_write_bw", "--odp")
        self.go("ib_send_bw", "--odp")

    def test_duration(self):
        self.go("ib_write_bw", "-D", "2")

    def test_unprivileged_user(self):
        wait_for_no_broker()
        self.addCleanup(wait_for_no_broker)
        self.go("ib_write_bw", user=65534)
        self.go("ib_send_lat", user=65534)


class OtherTransports(Perftest):
    def test_unreliable_connection(self):
        self.go("ib_send_bw", "-c", "UC")
        self.go("ib_write_bw", "-c", "UC")
        self.go("ib_send_lat", "-c", "UC")
        self.go("ib_write_lat", "-c", "UC")

    def test_datagrams(self):
        self.go("ib_send_bw", "-c", "UD", "-s", "1024")
        self.go("ib_send_lat", "-c", "UD", "-s", "1024")
        self.go("ib_send_lat", "-c", "UD", "-s", "1024", env=environment(VERBENA_LOCAL="off"))

    def test_extended_reliable_connection(self):
        self.go("ib_send_bw", "-c", "XRC")
        self.go("ib_write_bw", "-c", "XRC")
        self.go("ib_read_bw", "-c", "XRC")
        self.go("ib_send_lat", "-c", "XRC")


class Modes(AppTest):
    """The ways of `verbena run`. perftest walks the PCI bus, which only a private /sys shows."""

    PROGRAMS = ["ib_send_bw", "ib_write_lat", "ib_read_bw", "ib_atomic_lat"]

    def check(self, mode, program):
        env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        port = free_port()
        command = [VERBENA, "run", "--device", "probe0=near0", "--mode", mode, "--", program, "-F",
                   "-p", str(port), "-d", "probe0", "-n", "1000"]
        server, client = self.pair(command, [*command, NEAR], port, env=env)
        for outcome in (server, client):
            self.assertNotIn("pcilib", outcome.output)
        (_, done, figures), = rows(client.output)
        self.assertEqual(done, 1000)
        self.assertGreater(figures.get("MsgRate", figures.get("t_min", 0)), 0, client.output)

    def test_every_mode(self):
        for mode in ("env", "audit", "ns"):
            for program in self.PROGRAMS:
                with self.subTest(mode=mode, program=program):
                    self.check(mode, program)


class TwoHosts(Perftest):
    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()

    @classmethod
    def tearDownClass(cls):
        cls.far.close()

    def across(self, *args, **kwargs):
        return self.go(*args, address=FAR, server_prefix=self.far.prefix(), **kwargs)

    def test_every_program(self):
        for name in BANDWIDTH + LATENCY + ["ib_atomic_bw", "ib_atomic_lat"]:
            with self.subTest(program=name):
                self.across(name)

    def test_every_mtu(self):
        for mtu in ("256", "512", "1024", "2048", "4096"):
            for name in BANDWIDTH:
                with self.subTest(program=name, mtu=mtu):
                    self.across(name, "-m", mtu)

    def test_all_sizes(self):
        self.across("ib_write_bw", "-a", sizes=23)
        self.across("ib_read_bw", "-a", sizes=23)

    def test_ipv6(self):
        port = free_port()
        for name in ("ib_write_bw", "ib_send_lat"):
            command = [name, "-F", "-p", str(port), "-n", "100", "-x", "1"]
            self.pair(command, [*command, FAR], port, server_prefix=self.far.prefix())

    def test_other_transports(self):
        self.across("ib_send_bw", "-c", "UC")
        self.across("ib_send_bw", "-c", "UD", "-s", "1024")
        self.across("ib_send_bw", "-c", "XRC")

    def test_eight_queue_pairs_both_ways(self):
        self.across("ib_write_bw", "-q", "8", "-b")


if __name__ == "__main__":
    harness.main(mtu=9000)
