"""What NCCL needs of libibverbs and of sysfs. Debian has no NCCL, so nccl_probe stands for it: it
does what the InfiniBand layer of NCCL does to find and use an adapter."""

import ecosystem
import harness
from ecosystem import ROADS, OnDevice
from harness import finish

MOVED = 16 * (4 << 20)


class Probe(OnDevice):
    def test_probe(self):
        program = ecosystem.compiled("nccl_probe.c")
        for mode in ("env", "ns", "audit"):
            for road, variables in ROADS.items():
                with self.subTest(mode=mode, road=road):
                    before = self.bytes_sent()
                    outcome = finish(self.launch([program, self.device], mode, **variables), 60)
                    self.assert_ok(outcome)
                    lines = dict(line.split(": ", 1) for line in outcome.output.splitlines())
                    self.assertEqual(lines["symbols"], "26")
                    # DOMAIN:BUS:DEVICE.FUNCTION, below a root complex.
                    self.assertRegex(lines["path"], r"^/sys/devices/pci\w{4}:\w\w/"
                                                    r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
                    self.assertEqual(lines["type"], "RoCE v2")
                    self.assertEqual(lines["dma-buf"], "yes")
                    self.assertEqual(lines["verified"], f"{MOVED} bytes")
                    self.assertGreaterEqual(self.bytes_sent() - before, MOVED)


if __name__ == "__main__":
    harness.main(mtu=9000)
