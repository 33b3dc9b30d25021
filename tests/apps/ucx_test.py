"""Debian's UCX over Verbena: its tools, its measurements over rc_verbs and ud_verbs with each API,
and a program that connects by rdma_cm and looks at every byte (ucx_perftest checks none). UCX takes
any transport that works, so every test names its transports and reads the device's counters."""

import re

import ecosystem
import harness
from ecosystem import ROADS, OnDevice, long_form, needs
from harness import NEAR, NEAR6, finish, free_port, wait_listening

TRANSPORTS = {"rc_v": "rc_verbs", "ud_v": "ud_verbs"}

SHORT = [("rc_v", "tag_lat", 8), ("rc_v", "tag_bw", 1 << 20), ("rc_v", "ucp_put_bw", 1 << 20),
         ("rc_v", "ucp_get", 65536), ("rc_v", "ucp_fadd", 8), ("rc_v", "ucp_am_bw", 65536),
         ("rc_v", "stream_bw", 65536), ("ud_v", "tag_lat", 8), ("ud_v", "tag_bw", 65536)]
ANY_TRANSPORT = ["tag_lat", "tag_bw", "tag_sync_lat", "tag_sync_bw", "ucp_am_lat", "ucp_am_bw",
                 "stream_lat", "stream_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get"]
ATOMIC = ["ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap"]


class Ucx(OnDevice):
    def settings(self, transport, **variables):
        return {"UCX_TLS": f"{transport},self", "UCX_NET_DEVICES": f"{self.device}:1", **variables}


@needs("ucx_info")
class Info(Ucx):
    def test_transports_of_the_device(self):
        for mode in ("env", "ns"):
            with self.subTest(mode=mode):
                outcome = finish(self.launch(["ucx_info", "-d"], mode), 60)
                self.assert_ok(outcome)
                for transport in TRANSPORTS.values():
                    self.assertRegex(outcome.output,
                                     rf"Transport: {transport}\n#\s+Device: {self.device}:1\n")
                # What UCX says where a file of sysfs is missing or the GID is not RoCE v2's.
                self.assertNotRegex(outcome.output, r"ERROR|WARN|DIAG")


@needs("ucx_perftest")
class Measurements(Ucx):
    def measure(self, transport, test, size, iterations=2000, extra=(), **variables):
        port = free_port()
        command = ["ucx_perftest", "-p", str(port), "-t", test, "-s", str(size), "-f", "-n",
                   str(iterations), "-w", "50", *extra]
        settings = self.settings(transport, **variables)
        before = self.bytes_sent()
        server = self.launch(["ucx_perftest", "-p", str(port), *extra], **settings)
        wait_listening(port, server)
        client = finish(self.launch([*command, NEAR], **settings), 120)
        self.assert_ok(client, finish(server, 20))
        row = re.search(rf"(?m)^\s+{iterations}((?:\s+[\d.]+){{7}})$", client.output)
        self.assertIsNotNone(row, client.output)
        self.assertGreater(float(row[1].split()[6]), 0, client.output)
        # A message of these sizes crosses the device at least once in each iteration.
        self.assertGreaterEqual(self.bytes_sent() - before, iterations * size, client.output)

    def test_short_forms(self):
        for transport, test, size in SHORT:
            with self.subTest(transport=transport, test=test):
                self.measure(transport, test, size)

    def test_on_the_wire(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                self.measure(transport, "tag_bw", 65536, VERBENA_LOCAL="off")

    @long_form("every API of UCX in both roads")
    def test_every_api(self):
        for road, variables in ROADS.items():
            for test in ANY_TRANSPORT:
                for transport in TRANSPORTS:
                    if transport == "ud_v" and test.startswith(("ucp_put", "ucp_get")):
                        continue    # emulated by UCX with messages it does not count as such
                    for size in (8, 4096, 300000):
                        with self.subTest(road=road, test=test, transport=transport, size=size):
                            self.measure(transport, test, size, **variables)
            for test in ATOMIC:
                with self.subTest(road=road, test=test):
                    self.measure("rc_v", test, 8, **variables)

    @long_form("waiting for events instead of polling")
    def test_sleeping(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                self.measure(transport, "tag_lat", 8, extra=("-E", "sleep"))


@needs("ucx_info", "/usr/include/ucp/api/ucp.h")
class Checked(Ucx):
    MESSAGES = 141              # what each end verifies
    CLIENT = 65_457_956         # bytes, the client's and the server's share
    SERVER = 66_506_535

    def check(self, transport, address=NEAR, **variables):
        program = ecosystem.compiled("ucp_check.c", "ucp", "ucs")
        settings = self.settings(transport, UCX_SOCKADDR_TLS_PRIORITY="rdmacm", **variables)
        port = str(free_port())
        before = self.bytes_sent()
        server = self.launch([program, "listen", address, port], **settings)
        self.says(server, "listening")
        client = finish(self.launch([program, "connect", address, port], **settings), 120)
        served = finish(server, 20)
        self.assert_ok(client, served)
        for outcome, size in ((client, self.CLIENT), (served, self.SERVER)):
            self.assertIn(f"verified: {self.MESSAGES} messages, {size} bytes", outcome.output)
            self.assertIn("lane[0]: cm rdmacm", outcome.output)
            self.assertIn(f"{TRANSPORTS[transport]}/{self.device}:1", outcome.output)
        self.assertGreaterEqual(self.bytes_sent() - before, self.CLIENT + self.SERVER)

    def test_every_byte(self):
        for road, variables in ROADS.items():
            for transport in TRANSPORTS:
                with self.subTest(road=road, transport=transport):
                    self.check(transport, **variables)

    def test_ipv6(self):
        self.check("rc_v", NEAR6)

    @long_form("waits for retransmissions")
    def test_losses(self):
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                self.check(transport, VERBENA_LOCAL="off", VERBENA_FAULT="drop=1%,seed=3")


if __name__ == "__main__":
    harness.main(mtu=9000)
