"""Debian's libfabric over Verbena: what fi_info finds, and fi_pingpong with its data checks over
each kind of endpoint the verbs provider has: connected (msg), datagram, and the reliable datagrams
that libfabric makes of the two (rxm, rxd). Connections are rdma_cm's."""

import re

import harness
from ecosystem import ROADS, OnDevice, long_form, needs
from harness import NEAR, finish, free_port, wait_listening

ENDPOINTS = {
    "msg": ("FI_EP_MSG", ["-p", "verbs", "-e", "msg"]),
    "rxm": ("FI_EP_RDM", ["-p", "verbs;ofi_rxm", "-e", "rdm"]),
    "rxd": ("FI_EP_RDM", ["-p", "verbs;ofi_rxd", "-e", "rdm"]),
    "dgram": ("FI_EP_DGRAM", ["-p", "verbs", "-e", "dgram"]),
}
SIZES = {"64": 64, "256": 256, "1k": 1 << 10, "4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20}


class Libfabric(OnDevice):
    def ping(self, endpoint, iterations=20, extra=(), **variables):
        """Both ends' rows: as many messages acknowledged as sent, of each size the endpoint has."""
        port = free_port()
        command = ["fi_pingpong", *ENDPOINTS[endpoint][1], "-c", "-I", str(iterations), *extra]
        before = self.bytes_sent()
        server = self.launch([*command, "-B", str(port)], **variables)
        wait_listening(port, server)
        client = finish(self.launch([*command, "-P", str(port), NEAR], **variables), 120)
        served = finish(server, 20)
        self.assert_ok(client, served)
        sizes = [name for name in SIZES if endpoint != "dgram" or SIZES[name] <= 4096]
        for outcome in (client, served):
            rows = re.findall(r"(?m)^(\w+)\s+(\d+)\s+=(\d+)\s", outcome.output)
            self.assertEqual(rows, [(name, str(iterations), str(iterations)) for name in sizes],
                             outcome.output)
        each_way = iterations * sum(SIZES[name] for name in sizes)
        self.assertGreaterEqual(self.bytes_sent() - before, 2 * each_way)


@needs("fi_info")
class Info(Libfabric):
    def test_endpoints(self):
        """With a device that has no loopback address: the provider binds an id to one to see
        whether rdma_cm works at all."""
        for name, (kind, options) in ENDPOINTS.items():
            with self.subTest(endpoint=name):
                provider = options[1]
                outcome = finish(self.launch(["fi_info", "-p", provider, "-t", kind]), 60)
                self.assert_ok(outcome)
                self.assertRegex(outcome.output, rf"(?m)^provider: {provider}$")
                self.assertRegex(outcome.output, rf"domain: {self.device}(-dgram)?\n")
                self.assertIn(f"type: {kind}", outcome.output)


@needs("fi_pingpong")
class PingPong(Libfabric):
    def test_each_endpoint(self):
        for road, variables in ROADS.items():
            for endpoint in ENDPOINTS:
                with self.subTest(road=road, endpoint=endpoint):
                    self.ping(endpoint, **variables)

    def test_tagged(self):
        self.ping("rxm", extra=("-m", "tagged"))

    @long_form("ten times the messages, each endpoint and transmit mode")
    def test_many(self):
        for road, variables in ROADS.items():
            for endpoint in ENDPOINTS:
                for mode in ("msg", "tagged") if endpoint.startswith("rx") else ("msg",):
                    with self.subTest(road=road, endpoint=endpoint, mode=mode):
                        self.ping(endpoint, 200, ("-m", mode), **variables)

    @long_form("waits for retransmissions")
    def test_losses(self):
        for endpoint in ("msg", "rxm", "rxd"):
            with self.subTest(endpoint=endpoint):
                self.ping(endpoint, VERBENA_LOCAL="off", VERBENA_FAULT="drop=1%,seed=5")


if __name__ == "__main__":
    harness.main(mtu=9000)
