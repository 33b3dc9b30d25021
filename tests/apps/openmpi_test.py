"""Debian's Open MPI over Verbena: four processes of a program that looks at every element, over UCX
and over libfabric. Shared memory and TCP are closed to it, and the counters of the device say that
what it exchanged went through Verbena."""

import ecosystem
import harness
from ecosystem import ROADS, OnDevice, long_form, needs
from harness import finish

RANKS = 4
# Processes as root, more of them than processors, on this host alone.
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_plm_rsh_agent": "false",
            "OMPI_MCA_btl": "self"}
OVER_UCX = ["--mca", "pml", "ucx", "--mca", "osc", "ucx"]
OVER_OFI = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "pt2pt",
            "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm"]
VERIFIED = 3_343_547    # values each rank looks at; rank 0 also looks at the counter
# The ring alone: ten rounds of 1, 8, ... 262144 integers from each of four ranks.
BYTES = 10 * RANKS * 4 * sum(8 ** power for power in range(7))


@needs("mpirun", "mpicc")
class OpenMpi(OnDevice):
    def check(self, options, **variables):
        program = ecosystem.compiled("mpi_check.c", compiler="mpicc")
        before = self.bytes_sent()
        command = ["mpirun", "-n", str(RANKS), *options, program]
        outcome = finish(self.launch(command, **LAUNCHER, **variables), 300)
        self.assert_ok(outcome)
        lines = sorted(line for line in outcome.output.splitlines() if line.startswith("rank "))
        self.assertEqual(lines, [f"rank {rank} of {RANKS}: {VERIFIED + (rank == 0)} values verified"
                                 for rank in range(RANKS)], outcome.output)
        self.assertGreaterEqual(self.bytes_sent() - before, BYTES, outcome.output)

    def over_ucx(self, transport, **variables):
        self.check(OVER_UCX, UCX_TLS=f"{transport},self", UCX_NET_DEVICES=f"{self.device}:1",
                   **variables)

    def over_ofi(self, **variables):
        self.check(OVER_OFI, FI_PROVIDER="verbs;ofi_rxm", FI_VERBS_DEVICE_NAME=self.device,
                   **variables)

    def test_over_ucx(self):
        self.over_ucx("rc_v")

    def test_over_libfabric(self):
        self.over_ofi()

    @long_form("both roads, both transports of UCX")
    def test_roads(self):
        for road, variables in ROADS.items():
            for transport in ("rc_v", "ud_v"):
                with self.subTest(road=road, transport=transport):
                    self.over_ucx(transport, **variables)
            with self.subTest(road=road, transport="verbs;ofi_rxm"):
                self.over_ofi(**variables)


if __name__ == "__main__":
    harness.main(mtu=9000)
