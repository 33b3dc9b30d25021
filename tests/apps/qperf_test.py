"""Debian's qperf over RC, UC and UD: bandwidth, latency, RDMA and atomics."""

import re
import subprocess
import time

import harness
from harness import NEAR, AppTest, environment, finish, free_port, listening, run, start

TESTS = ["rc_bw", "rc_lat", "rc_bi_bw", "uc_bw", "uc_lat", "ud_bw", "ud_lat",
         "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw", "rc_rdma_write_lat",
         "rc_rdma_write_poll_lat", "uc_rdma_write_bw", "uc_rdma_write_lat",
         "rc_compare_swap_mr", "rc_fetch_add_mr"]


class Qperf(AppTest):
    def test_every_measurement(self):
        port = free_port()
        server = start(["qperf", "-lp", str(port)], environment())
        try:
            while not listening(port):
                time.sleep(0.02)
            for name in TESTS:
                with self.subTest(test=name):
                    # Without rdma_cm qperf needs the GID index to speak RoCE.
                    outcome = run(["qperf", "-lp", str(port), "-t", "1", "-sg", "0", NEAR, name],
                                  seconds=30)
                    if "unknown option" in outcome.output:
                        outcome = run(["qperf", "-lp", str(port), "-t", "1", NEAR, name],
                                      seconds=30)
                    self.assert_ok(outcome)
                    self.assertRegex(outcome.output, r"(bw|latency|msg_rate)\s*=\s*[\d.]+")
        finally:
            server.terminate()
            finish(server, 5)


if __name__ == "__main__":
    harness.main()
