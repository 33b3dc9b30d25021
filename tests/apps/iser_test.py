"""iSER: tgtd, unmodified, serves a disk by RDMA, and libiscsi's programs, unmodified, use it. What
was written is compared with the file behind the disk and with what is read back."""

import os
import pathlib
import re
import tempfile

import harness
from ecosystem import ROADS, Ecosystem, compiled, long_form, needs
from harness import FAR, NEAR, FarSide

TARGET = "iqn.2001-04.com.example:disk"
INITIATOR = "iqn.2001-04.com.example:initiator"
SIZE = 32 << 20


@needs("tgtd", "tgtadm", "iscsi-inq", "/usr/include/iscsi/iscsi.h")
class Iser(Ecosystem):
    port = 3260

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="verbena-iser-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.disk = self.folder / "disk"
        self.disk.write_bytes(os.urandom(SIZE))

    def target(self, address=NEAR, prefix=(), **variables):
        """tgtd with one disk that INITIATOR may use. Sets self.url."""
        Iser.port += 1      # the one before may linger in timewait
        variables["TGT_IPC_SOCKET"] = str(self.folder / "control")
        # The TCP portal is there only because tgtd wants one.
        command = ["tgtd", "-f", "--iser", f"port={Iser.port}", "--iscsi", "portal=127.0.0.1:3259"]
        daemon = self.start(command, prefix, **variables)
        self.says(daemon, "bs_init")
        mode = ["tgtadm", "--lld", "iser", "--mode"]
        for words in (["target", "--op", "new", "--tid", "1", "-T", TARGET],
                      ["logicalunit", "--op", "new", "--tid", "1", "--lun", "1", "-b",
                       str(self.disk)],
                      ["target", "--op", "bind", "--tid", "1", "-I", "ALL"],
                      ["target", "--op", "bind", "--tid", "1", "-Q", INITIATOR]):
            self.assert_ok(harness.run([*mode, *words], 30, harness.environment(**variables)))
        self.url = f"iscsi://{address}:{Iser.port}/{TARGET}/1?iser"
        return daemon

    def client(self, program, *options, seconds=90, **variables):
        return self.explained([program, "-i", INITIATOR, *options, self.url], seconds, **variables)

    def copy(self, size, **variables):
        """Writes random bytes by RDMA and reads them back."""
        wanted, got = self.folder / "wanted", self.folder / "got"
        wanted.write_bytes(os.urandom(size))
        output = self.explained([compiled("iser_copy.c", "iscsi"), self.url, INITIATOR,
                                 str(wanted), str(got)], 120, **variables)
        self.assertEqual(output, f"copied {size} bytes there and back\n")
        self.assertEqual(got.read_bytes(), wanted.read_bytes())
        self.assertEqual(self.disk.read_bytes()[:size], wanted.read_bytes())

    def test_data(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                before = self.disk.read_bytes()
                self.target(**env)
                self.copy(5 << 20, **env)
                self.assertEqual(self.disk.read_bytes()[5 << 20:], before[5 << 20:])
                self.end_all()

    def test_data_under_loss(self):
        env = {"VERBENA_LOCAL": "off", "VERBENA_FAULT": "drop=0.5%,seed=5"}
        self.target(**env)
        self.copy(1 << 20, **env)

    def test_what_the_disk_says_of_itself(self):
        self.target()
        said = self.client("iscsi-inq")
        self.assertIn("Peripheral Device Type:DIRECT_ACCESS", said)
        self.assertRegex(said, r"Product:VIRTUAL-DISK\b")
        said = self.client("iscsi-readcapacity16")
        self.assertIn(f"RETURNED LOGICAL BLOCK ADDRESS:{SIZE // 512 - 1}\n", said)
        self.assertIn(f"Total size:{SIZE}\n", said)

    def test_many_requests_at_once(self):
        self.target()
        said = self.client("iscsi-perf", "-m", "32", "-b", "64", "-t", "2")
        self.assertIn(f"capacity is {SIZE // 512} blocks", said)
        self.assertIn("finished.", said)
        self.assertGreater(int(re.findall(r"iops average (\d+)", said)[-1]), 0)

    def conformance(self, name):
        """A case of libiscsi's test suite, which compares what it reads with what it wrote."""
        self.target()
        said = self.client("iscsi-test-cu", "-d", "-t", name, seconds=120)
        ran, passed, failed = map(int, re.search(r"tests +\d+ +(\d+) +(\d+) +(\d+)", said).groups())
        self.assertEqual((passed, failed), (ran, 0), said)
        self.assertGreater(ran, 0)
        self.end_all()

    def test_conformance(self):
        for name in ("SCSI.WriteVerify10", "SCSI.Read10.Simple", "SCSI.CompareAndWrite.Simple"):
            with self.subTest(name):
                self.conformance(name)

    @long_form("every block size of every command")
    def test_conformance_long(self):
        for name in ("SCSI.Read6", "SCSI.Read12", "SCSI.Read16.Simple", "SCSI.Write12",
                     "SCSI.Write16.Simple", "SCSI.Verify10", "SCSI.WriteVerify16",
                     "SCSI.WriteSame10", "SCSI.OrWrite", "SCSI.Prefetch10", "SCSI.ReadCapacity16"):
            with self.subTest(name):
                self.conformance(name)

    @long_form("the whole disk, again and again")
    def test_data_long(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                self.target(**env)
                for _ in range(5):
                    self.copy(SIZE, **env)
                self.end_all()

    def test_a_stranger_is_refused(self):
        self.target()
        outcome = harness.run(["iscsi-inq", "-i", "iqn.2001-04.com.example:stranger", self.url], 30)
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("Target not found", outcome.output)


@needs("tgtd", "tgtadm", "/usr/include/iscsi/iscsi.h")
class TwoHosts(Iser):
    """The target in another network namespace."""

    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()
        cls.addClassCleanup(cls.far.close)

    def test_data(self):
        self.target(FAR, self.far.prefix())
        self.copy(5 << 20)


for case in [name for name in dir(Iser) if name.startswith("test_")]:
    if case not in vars(TwoHosts):
        setattr(TwoHosts, case, None)


if __name__ == "__main__":
    harness.main()
