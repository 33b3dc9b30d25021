"""Debian's libgloo over Verbena: four processes of a program whose collectives go over its ibverbs
transport, with every element looked at."""

import shutil
import tempfile

import ecosystem
import harness
from ecosystem import ROADS, OnDevice, needs
from harness import finish

RANKS = 4
VERIFIED = 12_024_240   # values each rank looks at
# Rings alone: ten rounds of sums, each rank sending 1.5 times the 500009 floats.
BYTES = 10 * RANKS * 500_009 * 4 * 3 // 2


@needs("/usr/include/gloo/transport/ibverbs/device.h")
class Gloo(OnDevice):
    def test_collectives(self):
        program = ecosystem.compiled("gloo_check.cc", "gloo", compiler="c++",
                                     options=["-std=c++20"])
        for road, variables in ROADS.items():
            with self.subTest(road=road):
                before = self.bytes_sent()
                meeting = tempfile.mkdtemp(prefix="verbena-gloo-")
                self.addCleanup(shutil.rmtree, meeting)
                ranks = [self.launch([program, str(rank), str(RANKS), meeting, self.device],
                                     **variables) for rank in range(RANKS)]
                outcomes = [finish(process, 120) for process in ranks]
                self.assert_ok(*outcomes)
                for rank, outcome in enumerate(outcomes):
                    self.assertEqual(outcome.output,
                                     f"rank {rank} of {RANKS}: {VERIFIED} values verified\n")
                self.assertGreaterEqual(self.bytes_sent() - before, BYTES)


if __name__ == "__main__":
    harness.main(mtu=9000)
