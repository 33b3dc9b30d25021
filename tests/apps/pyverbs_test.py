"""rdma-core's own tests (Debian's python3-pyverbs ships them as documentation) against Verbena:
every generic file but rdmacm's, one process per file. None may fail, and nothing may
be skipped that docs/rdma-core-tests.md does not list with its reason."""

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

HEADER = re.compile(r"^(test_\w+) \(tests\.(test_\w+)\.(\w+)(?:\.test_\w+)?\)", re.M)
VERDICT = re.compile(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped .*)$", re.M)


def results(output):
    """(case, verdict) of each test in a verbose unittest run; a case's own prints may stand
    between its name and its verdict."""
    listing = re.split(r"^[=-]{60,}$", output, maxsplit=1, flags=re.M)[0]
    heads = list(HEADER.finditer(listing))
    for head, following in zip(heads, heads[1:] + [None]):
        block = listing[head.end():following.start() if following else None]
        verdict = VERDICT.search(block)
        name, module, group = head.groups()
        yield f"{module}.{group}.{name}", verdict.group(1) if verdict else "no verdict"


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
                              seconds=300, env=environment(PYTHONDONTWRITEBYTECODE="1",
                                              PYTHONWARNINGS="ignore"))
                seen = 0
                for case, verdict in results(outcome.output):
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
        print()  # unittest has begun a line, and scripts/test lists what starts one
        for case, reason in sorted(skipped.items()):
            print(f"SKIPPED BY RDMA-CORE {case}: {reason}")
        print(f"rdma-core's tests: {len(passed)} pass, {len(skipped)} skip, {len(bad)} bad")
        self.assertEqual(bad, [])
        self.assertEqual(len(passed) + len(skipped), CASES)
        self.assertGreaterEqual(len(passed), PASS_AT_LEAST)
        self.assertEqual(sorted(set(skipped) - set(documented_skips())), [])


if __name__ == "__main__":
    harness.main()
