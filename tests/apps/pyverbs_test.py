"""rdma-core's own tests (Debian's python3-pyverbs ships them as documentation) against Verbena:
every generic file but rdmacm's, one process per file. None may fail; what is skipped must be what
docs/rdma-core-tests.md lists, reason by reason."""

import gzip
import os
import re
import shutil
import sys
import tempfile

import harness
from harness import AppTest, environment, run

SOURCE = "/usr/share/doc/rdma-core/tests"
FILES = ["addr", "atomic", "cq", "cq_events", "cqex", "cuda_dmabuf", "device", "flow", "fork",
         "mr", "odp", "parent_domain", "pd", "qp", "qpex", "relaxed_ordering", "rss_traffic",
         "shared_pd", "tag_matching"]
CASES = 161
PASS_AT_LEAST = 122

RESULT = re.compile(
    r"^(test_\w+) \(tests\.(test_\w+)\.(\w+)(?:\.test_\w+)?\).*?\.\.\. "
    r"(ok|FAIL|ERROR|skipped .*?)$", re.M | re.S)


def unpack(folder):
    for name in os.listdir(SOURCE):
        path = os.path.join(SOURCE, name)
        if name.endswith(".gz"):
            with gzip.open(path) as packed, open(os.path.join(folder, name[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
        else:
            shutil.copy(path, folder)


def documented_skips():
    """Case name -> reason, from the table in docs/rdma-core-tests.md."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "rdma-core-tests.md")) as page:
        return dict(re.findall(r"^\| `(test_\w+\.\w+\.test_\w+)` \| (.*?) \|$", page.read(), re.M))


class RdmaCoreTests(AppTest):
    def test_generic_suite(self):
        folder = tempfile.mkdtemp(prefix="verbena-rdma-core-")
        passed, skipped, bad = [], {}, []
        try:
            unpack(folder)
            for file in FILES:
                outcome = run(["/usr/bin/python3", os.path.join(folder, "run_tests.py"), "-v",
                               "--dev", "verbena0", "--gid", "0", "-k", f"tests.test_{file}."],
                              seconds=300, env=environment(PYTHONDONTWRITEBYTECODE="1"))
                seen = 0
                for name, module, group, verdict in RESULT.findall(outcome.output):
                    case = f"{module}.{group}.{name}"
                    seen += 1
                    if verdict == "ok":
                        passed.append(case)
                    elif verdict.startswith("skipped"):
                        skipped[case] = verdict[8:].strip("'\"")
                    else:
                        bad.append(case)
                ran = re.search(r"^Ran (\d+) tests?", outcome.output, re.M)
                complete = ran and int(ran.group(1)) == seen
                if not complete or outcome.code != 0:
                    bad.append(f"{file}: exit code {outcome.code}, {seen} results\n"
                               + outcome.output[-4000:])
        finally:
            shutil.rmtree(folder)
        for case, reason in sorted(skipped.items()):
            print(f"SKIPPED BY RDMA-CORE {case}: {reason}")
        print(f"rdma-core's tests: {len(passed)} pass, {len(skipped)} skip, {len(bad)} bad")
        self.assertEqual(bad, [])
        self.assertEqual(len(passed) + len(skipped), CASES)
        self.assertGreaterEqual(len(passed), PASS_AT_LEAST)
        self.assertEqual(sorted(skipped), sorted(documented_skips()))


if __name__ == "__main__":
    harness.main()
