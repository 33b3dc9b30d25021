"""librpma, Debian's, unmodified: reads, writes, an atomic write, a flush and messages between two
processes (rpma_pair.c), with every byte compared by both."""


import harness
from ecosystem import ROADS, Ecosystem, compiled, long_form, needs
from harness import FAR, NEAR, FarSide, finish, free_port

BYTES = 1 << 20


@needs("/usr/include/librpma.h")
class Rpma(Ecosystem):
    def session(self, piece, bytes=BYTES, address=NEAR, prefix=(), seconds=120, **variables):
        program = compiled("rpma_pair.c", "rpma", "ibverbs")
        port = str(free_port())
        server = self.start([program, "server", address, port, str(bytes)], prefix, **variables)
        self.says(server, "listening")
        client = self.start([program, "client", address, port, str(bytes), str(piece)], **variables)
        asked, served = finish(client, seconds), finish(server, 30)
        self.assert_ok(asked, served)
        self.assertEqual(asked.output,
                         f"client: read and wrote {bytes} bytes in pieces of {piece}\n")
        self.assertEqual(served.output, f"server: {bytes} bytes are the client's\n")

    def test_both_roads(self):
        for road, env in ROADS.items():
            for piece in (4096, 65537, BYTES):
                with self.subTest(road=road, piece=piece):
                    self.session(piece, **env)

    def test_under_loss(self):
        """2 % of the packets, one request at a time: each loss of a last packet costs a time-out,
        of the half second that rdma_cm gives it."""
        self.session(65536, bytes=256 << 10, VERBENA_LOCAL="off",
                     VERBENA_FAULT="drop=2%,seed=3")

    @long_form("hundreds of time-outs")
    def test_under_loss_long(self):
        for seed in range(10):
            with self.subTest(seed=seed):
                self.session(16384, seconds=600, VERBENA_LOCAL="off",
                             VERBENA_FAULT=f"drop=2%,seed={seed}")

    @long_form("every piece size")
    def test_pieces_long(self):
        for road, env in ROADS.items():
            for piece in (64, 1000, 1 << 14, 1 << 18, 64 << 20):
                with self.subTest(road=road, piece=piece):
                    self.session(piece, bytes=max(piece, 1 << 20), **env)


@needs("/usr/include/librpma.h")
class TwoHosts(Ecosystem):
    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()
        cls.addClassCleanup(cls.far.close)

    def test_two_namespaces(self):
        Rpma.session(self, 65536, address=FAR, prefix=self.far.prefix())


if __name__ == "__main__":
    harness.main()
