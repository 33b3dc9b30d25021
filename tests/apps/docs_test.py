"""The examples of docs/*.md, executed: every ```console block, command by command, in a folder
that has build/, examples/ and scenarios/ as the top of the source tree has. A command must
succeed; a line shown under it must appear in its output (numbers and addresses may differ). And
the versions in the README's table of programs, against the packages that the tests of those
programs ran."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import harness
from harness import BUILD, AppTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)

ROW = re.compile(r"^\| [^|]+ \| (\S[^|\d]*?) (\d[^| ]*) \|", re.M)     # program, name, version
PACKAGES = {"rdma-core": "rdmacm-utils", "perftest": "perftest", "UCX": "ucx-utils",
            "Open MPI": "openmpi-bin", "libfabric": "libfabric-bin", "Gloo": "libgloo0"}


def shape(line):
    """The line with numbers, addresses and runs of blanks made alike."""
    return re.sub(r"\s+", " ", re.sub(r"[0-9a-fA-Fx.:]*\d[0-9a-fA-Fx.:]*", "#", line)).strip()


def commands(block):
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found and line.strip() and line.strip() != "...":
            found[-1][1].append(line)
    return found


class Pages(AppTest):
    def run_page(self, path):
        scratch = tempfile.mkdtemp(prefix="verbena-docs-")
        os.symlink(BUILD, os.path.join(scratch, "build"))
        for folder in ("examples", "scenarios"):
            os.symlink(os.path.join(ROOT, folder), os.path.join(scratch, folder))
        env = dict(os.environ, PATH=f"{scratch}/build/bin:{os.environ['PATH']}")
        for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
            env.pop(name, None)
        ran = 0
        try:
            for block in BLOCK.findall(open(path).read()):
                for command, expected in commands(block):
                    done = subprocess.run(["bash", "-c", command], cwd=scratch, env=env,
                                          stdin=subprocess.DEVNULL, capture_output=True,
                                          text=True, timeout=120)
                    output = done.stdout + done.stderr
                    self.assertEqual(done.returncode, 0, f"{path}: $ {command}\n{output}")
                    shapes = [shape(line) for line in output.splitlines()]
                    for line in expected:
                        self.assertIn(shape(line), shapes, f"{path}: $ {command}\n{output}")
                    ran += 1
        finally:
            shutil.rmtree(scratch)
        return ran

    def test_every_page_with_examples_says_where_they_run(self):
        for path in glob.glob(os.path.join(ROOT, "docs", "*.md")):
            page = open(path).read()
            if BLOCK.search(page) and os.path.basename(path) != "running.md":
                self.assertIn("[running.md](running.md#the-examples)", page, path)

    def test_every_example(self):
        ran = 0
        for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
            with self.subTest(page=os.path.basename(path)):
                ran += self.run_page(path)
        self.assertGreaterEqual(ran, 12)


class Readme(AppTest):
    def test_versions_of_programs(self):
        rows = ROW.findall(pathlib.Path(ROOT, "README.md").read_text())
        for name in ("UCX", "Open MPI", "libfabric", "Gloo"):
            self.assertIn(name, [row[0] for row in rows])
        for name, version in rows:
            if name not in PACKAGES:
                continue
            with self.subTest(name=name):
                found = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", PACKAGES[name]],
                                       capture_output=True, text=True)
                if found.returncode != 0:
                    self.skipTest(f"{PACKAGES[name]} is not installed")
                self.assertRegex(found.stdout, rf"^(\d+:)?{re.escape(version)}\b")


if __name__ == "__main__":
    harness.main()
