#!/usr/bin/env python3
"""scripts/test and scripts/skipped.awk: every skipped case is printed with its reason and counted,
whoever skipped it, and ctest's own summary stays the end of the output. And the counts that the
programs in tests/apps end with."""
import os
import pathlib
import subprocess
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "scripts"
APPS = ROOT / "tests" / "apps"

LOG = """\
Start testing: Dec 02 01:35 UTC
----------------------------------------------------------
3/35 Testing: link_test
3/35 Test: link_test
[ RUN      ] UdpLink.Sends
[       OK ] UdpLink.Sends (3 ms)
[ RUN      ] UdpLink.Raw
/src/udp_link_test.cc:268: Skipped
no raw sockets
permitted

[  SKIPPED ] UdpLink.Raw (1 ms)
[ RUN      ] Roads/Process.Runs/local
/src/roads.h:42: Skipped


[  SKIPPED ] Roads/Process.Runs/local, where GetParam() = 1-byte object <01> (0 ms)
[ RUN      ] UdpLink.Late
some output of a test that passes
[       OK ] UdpLink.Late (3 ms)
[  PASSED  ] 2 tests.
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] UdpLink.Raw
[  SKIPPED ] Roads/Process.Runs/local, where GetParam() = 1-byte object <01>
4/35 Testing: apps_paths
4/35 Test: apps_paths
test_env (__main__.Modes.test_env) ... ok
test_ns (__main__.Modes.test_ns) ... skipped 'no user namespaces for users here'
test_ucx (__main__.Ucx.test_ucx)
What it does in one sentence. ... skipped "ucx_info is not 'there'"
8 passed, 0 failed, 2 skipped
5/35 Testing: apps_pyverbs
5/35 Test: apps_pyverbs
SKIPPED BY RDMA-CORE test_mr.DmaBuf.test_lkey: There is no DRI: /dev/dri
5/35 Testing: tshark_test
5/35 Test: tshark_test
SKIP: tshark is not installed
6/35 Testing: sanitize_asan
6/35 Test: sanitize_asan
Left to `make sanitize`: slow_test
 1/36 Test  #2: fast_test ..................   Passed    0.07 sec
Skipped: fast_test: A.b: a reason

Skipped cases: 1 (listed above; a program may pass without them)
"""


class Skipped(unittest.TestCase):
    def listed(self, log):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(log)
            file.flush()
            return subprocess.check_output(["awk", "-f", SCRIPTS / "skipped.awk", file.name],
                                           text=True)

    def test_every_kind_is_listed_and_counted(self):
        self.assertEqual(self.listed(LOG).splitlines(), [
            "Skipped: link_test: UdpLink.Raw: no raw sockets permitted",
            "Skipped: link_test: Roads/Process.Runs/local: no reason given",
            "Skipped: apps_paths: test_ns: no user namespaces for users here",
            "Skipped: apps_paths: test_ucx: ucx_info is not 'there'",
            "Skipped: apps_pyverbs: test_mr.DmaBuf.test_lkey: There is no DRI: /dev/dri",
            "Skipped: tshark_test: all: tshark is not installed",
            "sanitize_asan: Left to `make sanitize`: slow_test",
            "Skipped: sanitize_asan: fast_test: A.b: a reason",
            "",
            "Skipped cases: 7 (listed above; a program may pass without them)",
            ""])

    def test_nothing_skipped_is_nothing_said(self):
        self.assertEqual(self.listed(LOG.split("[ RUN      ] UdpLink.Raw")[0]), "")


class Runner(unittest.TestCase):
    """scripts/test on a build of three little tests."""

    def run_build(self, *tests):
        with tempfile.TemporaryDirectory() as build:
            lines = []
            for name, script in tests:
                path = os.path.join(build, name)
                pathlib.Path(path).write_text("#!/bin/sh\n" + textwrap.dedent(script))
                os.chmod(path, 0o755)
                lines.append(f'add_test({name} "{path}")')
                lines.append(f"set_tests_properties({name} PROPERTIES SKIP_RETURN_CODE 77)")
            pathlib.Path(build, "CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
            done = subprocess.run([SCRIPTS / "test", build], text=True, capture_output=True)
            runs = pathlib.Path(build, "runs")
            return done, runs.read_text() if runs.exists() else ""

    def test_skips_stand_before_the_summary(self):
        done, _ = self.run_build(
            ("good", "echo '[ RUN      ] A.b'; echo 'x.cc:1: Skipped'; echo 'a reason'\n"
                     "echo '[  SKIPPED ] A.b (0 ms)'\n"),
            ("away", "echo 'SKIP: no tool'; exit 77\n"))
        self.assertEqual(done.returncode, 0, done.stdout)
        text = done.stdout
        self.assertIn("Skipped: good: A.b: a reason\n", text)
        self.assertIn("Skipped: away: all: no tool\n", text)
        self.assertIn("Skipped cases: 2 ", text)
        self.assertLess(text.index("Skipped cases: 2"), text.index("100% tests passed"))
        self.assertRegex(text.rstrip().splitlines()[-1], r"away \(Skipped\)")

    def test_a_failure_is_a_failure_and_is_not_tried_again(self):
        done, runs = self.run_build(("flaky", 'echo run >> "$(dirname "$0")/runs"\n'
                                              '[ "$(wc -l < "$(dirname "$0")/runs")" -gt 1 ]\n'))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(runs, "run\n")
        self.assertIn("flaky (Failed)", done.stdout)

    def test_no_tests_is_a_failure(self):
        done, _ = self.run_build()
        self.assertNotEqual(done.returncode, 0)


class HarnessCounts(unittest.TestCase):
    """The last line of the programs in tests/apps."""

    def last_line(self, body):
        program = "import sys, unittest, harness\n" + textwrap.dedent(body)
        program += "\nsys.exit(harness.run_tests())\n"
        done = subprocess.run(["python3", "-"], input=program, text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(APPS)}, timeout=60)
        return done.stdout.rstrip().splitlines()[-1], done.returncode

    def test_passed_failed_and_skipped(self):
        line, code = self.last_line("""
            class Some(unittest.TestCase):
                def test_good(self): pass
                def test_bad(self): self.fail()
                def test_away(self): self.skipTest("not here")
                def test_parts(self):
                    for part in range(3):
                        with self.subTest(part=part): self.assertEqual(part, 0)
            """)
        self.assertEqual(line, "1 passed, 3 failed, 1 skipped")
        self.assertEqual(code, 1)

    def test_a_class_that_cannot_be_set_up(self):
        line, code = self.last_line("""
            class None_(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise RuntimeError("no")
                def test_one(self): pass
            """)
        self.assertEqual(line, "0 passed, 1 failed, 0 skipped")
        self.assertEqual(code, 1)

    def test_a_class_that_is_skipped(self):
        line, code = self.last_line("""
            class Away(unittest.TestCase):
                @classmethod
                def setUpClass(cls): raise unittest.SkipTest("not here")
                def test_one(self): pass
            """)
        self.assertEqual(line, "0 passed, 0 failed, 1 skipped")
        self.assertEqual(code, 0)

    def test_nothing_at_all(self):
        self.assertEqual(self.last_line(""), ("0 passed, 0 failed, 0 skipped", 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
