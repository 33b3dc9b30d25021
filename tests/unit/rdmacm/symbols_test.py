#!/usr/bin/env python3
"""What librdmacm.so.1 exports, against the distribution's library as the oracle: every symbol at
every node must be there, nothing else, and no C++ runtime among what it needs."""
import os
import re
import shutil
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
ORACLES = [f"/usr/lib/{machine}-linux-gnu/librdmacm.so.1" for machine in ("x86_64", "aarch64")]
ORACLE = next((path for path in ORACLES if os.path.exists(path)), None)
NEWER = {("rdma_query_addrinfo", "RDMACM_1.4"), ("rdma_resolve_addrinfo", "RDMACM_1.4"),
         ("rdma_write_cm_event", "RDMACM_1.4")}
GLIBC = (2, 35)  # docs/HACKING.md


def exports(path):
    """{(name, node)} of the defined dynamic symbols, and the names without a node."""
    text = subprocess.check_output(["readelf", "-W", "--dyn-syms", path], text=True)
    versioned, bare = set(), set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] in ("UND", "Ndx") or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        match = re.match(r"([^@]+)@@?(.+)$", fields[7])
        if match:
            versioned.add((match[1], match[2]))
        elif not re.match(r"RDMACM_", fields[7]):
            bare.add(fields[7])
    return {(name, node) for name, node in versioned if name != node}, bare


class Symbols(unittest.TestCase):
    def test_exports_what_the_distribution_does_and_the_newer_node(self):
        versioned, bare = exports(LIBRARY)
        self.assertEqual((len(versioned), bare), (71, set()))
        if ORACLE is None:
            self.skipTest("no system librdmacm")
        self.assertEqual(versioned - NEWER, exports(ORACLE)[0])
        self.assertLessEqual(NEWER, versioned)

    @unittest.skipUnless(ORACLE and shutil.which("abidiff"), "no system librdmacm or no abidiff")
    def test_abidiff_finds_nothing_removed(self):
        done = subprocess.run(["abidiff", "--no-added-syms", ORACLE, LIBRARY], text=True,
                              capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"Functions changes summary: 0 Removed, 0 Changed, 0 Added")

    def test_needs_our_libibverbs_and_no_cxx_runtime(self):
        text = subprocess.check_output(["readelf", "-d", LIBRARY], text=True)
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", text))
        self.assertLessEqual(needed, {"libibverbs.so.1", "libc.so.6", "ld-linux-x86-64.so.2",
                                      "ld-linux-aarch64.so.1"})
        self.assertIn("Library soname: [librdmacm.so.1]", text)
        self.assertIn("NODELETE", text)
        self.assertTrue(os.path.islink(os.path.join(os.path.dirname(LIBRARY), "librdmacm.so")))

    def test_takes_one_private_symbol(self):
        text = subprocess.check_output(["readelf", "-W", "--dyn-syms", LIBRARY], text=True)
        private = set(re.findall(r"UND (\S+)@\S*PRIVATE", text))
        self.assertEqual(private, {"verbena_rdmacm_port"})

    def test_no_symbol_is_newer_than_the_floor(self):
        text = subprocess.check_output(["objdump", "-T", LIBRARY], text=True)
        wanted = re.findall(r"\*UND\*.*\(?GLIBC_(\d+)\.(\d+)[\d.]*\)?\s+(\S+)", text)
        self.assertGreater(len(wanted), 5)
        newer = [name for major, minor, name in wanted if (int(major), int(minor)) > GLIBC]
        self.assertEqual(newer, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)  # a skipped case says why
