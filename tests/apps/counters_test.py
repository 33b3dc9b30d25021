"""Counter files of /sys/class/infiniband under `verbena run`: what perftest -W reads while it runs,
what stands there afterwards, in every mode, for one process and for many, for each device alone."""

import os
import re
import time

import harness
from harness import NEAR, VERBENA, AppTest, finish, free_port, run, start, wait_listening


def plain_environment(**extra):
    env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    env.update(extra)
    return env


class Counters(AppTest):
    number = 0

    def setUp(self):
        # A name of its own is a tree of its own, which starts at 0.
        Counters.number += 1
        self.device = f"c{os.getpid()}x{Counters.number}"

    def verbena(self, mode="env", extra=()):
        return [VERBENA, "run", "--mode", mode, "--device", f"{self.device}=near0", *extra, "--"]

    def read(self, name, device=None, mode="env", extra=()):
        path = f"/sys/class/infiniband/{device or self.device}/ports/1/{name}"
        outcome = run([*self.verbena(mode, extra), "cat", path], env=plain_environment())
        self.assert_ok(outcome)
        return int(outcome.output)

    def pair_of(self, program, *options, mode="env", device=None, extra=(), address=NEAR,
                env=None):
        port = free_port()
        command = [*self.verbena(mode, extra), program, "-F", "-p", str(port),
                   "-d", device or self.device, *options]
        return self.pair(command, [*command, address], port, env=env or plain_environment())


class Reports(Counters):
    LIST = "counters/port_xmit_data,counters/port_xmit_packets,hw_counters/rdma_sends"

    def check(self, mode):
        # Long enough that the counters were published on the way: then the end is exact.
        _, client = self.pair_of("ib_send_bw", "-n", "300000", "-s", "64", "-W", self.LIST,
                                 mode=mode)
        found = {name: int(value) for name, value in
                 re.findall(r"(\S*counters/\w+)=(\d+)", client.output)}
        self.assertGreaterEqual(found["hw_counters/rdma_sends"], 285000, client.output)
        self.assertLessEqual(found["hw_counters/rdma_sends"], 300010)
        self.assertGreaterEqual(found["counters/port_xmit_packets"], 285000)
        self.assertGreaterEqual(found["counters/port_xmit_data"], 285000 * 16)
        self.assertLessEqual(found["counters/port_xmit_data"], 300100 * 16)

    def test_perftest_reports_them(self):
        self.check("env")

    def test_perftest_reports_them_in_a_private_namespace(self):
        self.check("ns")


class Sums(Counters):
    def test_both_ends_of_one_device(self):
        self.pair_of("ib_send_bw", "-n", "1000", "-s", "4096")
        # perftest's client sends 1000 messages; the server may answer with a few of its own
        self.assertGreaterEqual(self.read("hw_counters/rdma_sends"), 1000)
        self.assertLess(self.read("hw_counters/rdma_sends"), 1010)
        self.assertEqual(self.read("hw_counters/rdma_sends"),
                         self.read("hw_counters/rdma_recvs"))
        self.assertEqual(self.read("counters/port_xmit_data"),
                         self.read("counters/port_rcv_data"))
        self.assertEqual(self.read("counters/port_xmit_packets"),
                         self.read("counters/port_rcv_packets"))
        self.assertGreaterEqual(self.read("counters/port_xmit_data"), 1000 * 1024)

    def test_many_processes(self):
        def writes():
            return self.read("hw_counters/tx_write_requests")

        self.pair_of("ib_write_bw", "-n", "100", "-s", "2048")
        one = writes()
        self.assertGreaterEqual(one, 100)
        pairs = []
        for _ in range(6):
            port = free_port()
            command = [*self.verbena(), "ib_write_bw", "-F", "-p", str(port), "-d", self.device,
                       "-n", "100", "-s", "2048"]
            pairs.append((command, port))
        servers = [start(command, plain_environment()) for command, _ in pairs]
        for (_, port), server in zip(pairs, servers):
            wait_listening(port, server)
        clients = [start([*command, NEAR], plain_environment()) for command, _ in pairs]
        self.assert_ok(*[finish(process, 60) for process in clients + servers])
        self.assertEqual(writes(), 7 * one)
        self.assertEqual(self.read("hw_counters/rx_write_requests"), 7 * one)

    def test_devices_of_one_machine_count_apart(self):
        other = self.device + "y"
        extra = ["--device", f"{other}=lo"]
        self.pair_of("ib_write_bw", "-n", "100", device=other, extra=extra, address="127.0.0.1")
        self.assertGreaterEqual(self.read("hw_counters/tx_write_requests", other, extra=extra), 100)
        self.assertEqual(self.read("hw_counters/tx_write_requests", extra=extra), 0)
        self.assertEqual(self.read("counters/port_rcv_packets", extra=extra), 0)

    def test_a_killed_process_leaves_what_it_counted(self):
        port = free_port()
        command = [*self.verbena(), "ib_write_bw", "-F", "-p", str(port), "-d", self.device,
                   "-D", "20"]
        server = start(command, plain_environment())
        wait_listening(port, server)
        client = start([*command, NEAR], plain_environment())
        deadline = time.time() + 15  # the programs run for 20 s
        while self.read("hw_counters/tx_write_requests") <= 1000 and time.time() < deadline:
            time.sleep(0.02)
        before = self.read("hw_counters/tx_write_requests")
        for process in (server, client):
            process.kill()
            finish(process, 5)
        self.assertGreater(before, 1000)
        self.assertGreaterEqual(self.read("hw_counters/tx_write_requests"), before)


if __name__ == "__main__":
    harness.main(mtu=9000)
