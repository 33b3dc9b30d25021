"""Debian's qperf over RC, UC and UD: bandwidth, latency, RDMA and atomics. Without rdma_cm it knows
LIDs only, so it gets a device with LID addressing."""

import os
import tempfile

import harness
from harness import (NEAR, VERBENA, AppTest, environment, finish, free_port, run, start,
                     wait_listening)

TESTS = ["rc_bw", "rc_lat", "rc_bi_bw", "uc_bw", "uc_lat", "ud_bw", "ud_lat",
         "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "uc_rdma_write_bw", "uc_rdma_write_lat",
         "rc_compare_swap_mr", "rc_fetch_add_mr"]

CONFIG = """
[[device]]
name = "ib0"
interface = "near0"
lid = true
"""


class Qperf(AppTest):
    def setUp(self):
        handle, self.config = tempfile.mkstemp(suffix=".toml")
        os.write(handle, CONFIG.encode())
        os.close(handle)
        self.addCleanup(os.unlink, self.config)

    def test_every_measurement(self):
        for local in ("on", "off"):
            env = environment(VERBENA_CONFIG=self.config, VERBENA_LOCAL=local)
            port = free_port()
            server = start(["qperf", "-lp", str(port)], env)
            try:
                wait_listening(port, server)
                for name in TESTS:
                    with self.subTest(test=name, local=local):
                        outcome = run(["qperf", "-lp", str(port), "-t", "1", NEAR, name],
                                      seconds=30, env=env)
                        self.assert_ok(outcome)
                        self.assertRegex(outcome.output, r"(bw|latency|msg_rate)\s*=\s*[\d.]+")
            finally:
                server.terminate()
                finish(server, 5)


class Lid(AppTest):
    def test_verbena_run_with_lid(self):
        env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        command = [VERBENA, "run", "--lid", "--", "qperf", "-lp"]
        port = free_port()
        server = start([*command, str(port)], env)
        try:
            wait_listening(port, server)
            outcome = run([*command, str(port), "-t", "1", NEAR, "rc_lat"], seconds=30, env=env)
            self.assert_ok(outcome)
            self.assertRegex(outcome.output, r"latency\s*=\s*[\d.]+")
        finally:
            server.terminate()
            finish(server, 5)


if __name__ == "__main__":
    harness.main(mtu=9000)
