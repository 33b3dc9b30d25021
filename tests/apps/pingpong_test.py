"""Debian's ibverbs-utils, unmodified: listing, and every ping-pong with its options. -c makes the
program itself compare the received bytes."""

import re
import unittest

import harness
from harness import FAR, NEAR, AppTest, FarSide, environment, free_port, run, wait_for_no_broker

GID_V4, GID_V6 = "0", "1"


class Listing(AppTest):
    def test_devices(self):
        outcome = run(["ibv_devices"])
        self.assert_ok(outcome)
        self.assertRegex(outcome.output, r"verbena0\s+[0-9a-f]{16}")
        self.assertRegex(outcome.output, r"verbena1\s+[0-9a-f]{16}")

    def test_devinfo(self):
        outcome = run(["ibv_devinfo", "-v", "-d", "verbena0"])
        self.assert_ok(outcome)
        for line in ["transport:\t\t\tInfiniBand (0)", "state:\t\t\tPORT_ACTIVE (4)",
                     "link_layer:\t\tEthernet", "max_mtu:\t\t4096 (5)",
                     "active_mtu:\t\t1024 (3)", "atomic_cap:\t\t\tATOMIC_HCA"]:
            self.assertIn(line, outcome.output)
        self.assertRegex(outcome.output, r"GID\[  0\]:\t\t::ffff:10\.99\.0\.1, RoCE v2")
        self.assertRegex(outcome.output, r"GID\[  1\]:\t\tf[de].*, RoCE v2")


def pingpong(name, options=(), address=NEAR, gid=GID_V4, iterations=200, checks_data=True, **more):
    port = free_port()
    common = [name, "-p", str(port), "-g", gid, "-n", str(iterations), *options]
    if checks_data:
        common.append("-c")
    return common, [*common, address], port, more


class PingPong(AppTest):
    def go(self, *args, **kwargs):
        server, client, port, more = pingpong(*args, **kwargs)
        for outcome in self.pair(server, client, port, **more):
            self.assertRegex(outcome.output, r"\d+ iters in [\d.]+ seconds")
            self.assertNotRegex(outcome.output, r"invalid data|Failed status|mismatch")

    def test_rc(self):
        self.go("ibv_rc_pingpong")

    def test_rc_events(self):
        self.go("ibv_rc_pingpong", ["-e"])

    def test_rc_new_send(self):
        self.go("ibv_rc_pingpong", ["-N"])

    def test_rc_timestamps(self):
        self.go("ibv_rc_pingpong", ["-t"])

    def test_rc_on_demand_paging(self):
        self.go("ibv_rc_pingpong", ["-o"])

    def test_rc_device_memory(self):
        self.go("ibv_rc_pingpong", ["-j"])

    def test_rc_long_messages(self):
        self.go("ibv_rc_pingpong", ["-s", "1000000", "-m", "1024"], iterations=20)

    def test_rc_every_mtu(self):
        for mtu in ("256", "512", "1024"):
            with self.subTest(mtu=mtu):
                self.go("ibv_rc_pingpong", ["-m", mtu, "-s", "9001"], iterations=50,
                        env=environment(VERBENA_LOCAL="off"))

    def test_rc_over_the_wire(self):
        self.go("ibv_rc_pingpong", env=environment(VERBENA_LOCAL="off"))

    def test_rc_ipv6(self):
        # The handshake runs over IPv4, the packets from and to the IPv6 GID.
        self.go("ibv_rc_pingpong", gid=GID_V6, env=environment(VERBENA_LOCAL="off"))
        self.go("ibv_ud_pingpong", ["-s", "1000"], gid=GID_V6,
                env=environment(VERBENA_LOCAL="off"))

    def test_uc(self):
        self.go("ibv_uc_pingpong", checks_data=True)

    def test_uc_events(self):
        self.go("ibv_uc_pingpong", ["-e"])

    def test_ud(self):
        self.go("ibv_ud_pingpong", ["-s", "1000"])

    def test_ud_events(self):
        self.go("ibv_ud_pingpong", ["-e", "-s", "1000"])

    def test_srq(self):
        self.go("ibv_srq_pingpong")

    def test_srq_events(self):
        self.go("ibv_srq_pingpong", ["-e"])

    def test_xsrq(self):
        port = free_port()
        server = ["ibv_xsrq_pingpong", "-p", str(port), "-g", GID_V4, "-n", "100"]
        outcomes = self.pair(server, [*server, NEAR], port)
        for outcome in outcomes:
            self.assertRegex(outcome.output, r"(?m)^success$")

    def test_xsrq_events(self):
        port = free_port()
        server = ["ibv_xsrq_pingpong", "-p", str(port), "-g", GID_V4, "-n", "100", "-e"]
        self.pair(server, [*server, NEAR], port)

    def test_unprivileged_user(self):
        wait_for_no_broker()
        self.addCleanup(wait_for_no_broker)
        self.go("ibv_rc_pingpong", user=65534)


class TwoHosts(AppTest):
    def test_across_namespaces(self):
        far = FarSide()
        try:
            for name in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
                         "ibv_srq_pingpong"):
                with self.subTest(program=name):
                    size = ["-s", "1000"] if "ud" in name else ["-s", "5000"]
                    server, client, port, _ = pingpong(name, size, address=FAR)
                    outcomes = self.pair(server, client, port, server_prefix=far.prefix())
                    self.assertRegex(outcomes[1].output, r"\d+ iters in [\d.]+ seconds")
        finally:
            far.close()
            harness.sh("ip link del near0 2>/dev/null; true")


if __name__ == "__main__":
    harness.main()
