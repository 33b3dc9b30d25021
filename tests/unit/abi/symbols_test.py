#!/usr/bin/env python3
"""What libibverbs.so.1 exports, against the distribution's library as the oracle: every symbol at
every node must be there, nothing without a version, and no C++ runtime among what it needs."""
import ctypes
import os
import re
import shutil
import subprocess
import sys
import unittest

LIBRARY = sys.argv.pop(1)
ORACLES = [f"/usr/lib/{machine}-linux-gnu/libibverbs.so.1" for machine in ("x86_64", "aarch64")]
ORACLE = next((path for path in ORACLES if os.path.exists(path)), None)

# Nodes newer than the oracle, by the release of rdma-core that added them.
NEWER = {
    "IBVERBS_1.15": {"ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"},
    "IBVERBS_1.16": {"ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"},
    "IBVERBS_1.17": {"ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"},
}
PRIVATE = [15, 16, 17, 18, 19, 20, 21, 22, 25, 33, 34, 57, 59, 64]


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
        elif not re.match(r"(IBVERBS|VERBENA)_", fields[7]):
            bare.add(fields[7])
    return versioned, bare


class Symbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.versioned, cls.bare = exports(LIBRARY)

    @unittest.skipUnless(ORACLE, "no system libibverbs")
    def test_has_every_symbol_of_the_distribution(self):
        wanted = {(name, node) for name, node in exports(ORACLE)[0] if name != node}
        self.assertGreater(len(wanted), 150)
        self.assertEqual(wanted - self.versioned, set())

    def test_has_the_newer_nodes(self):
        for node, names in NEWER.items():
            self.assertEqual({n for n, v in self.versioned if v == node} - {node}, names)

    def test_every_private_node_has_the_driver_interface(self):
        for release in PRIVATE:
            node = f"IBVERBS_PRIVATE_{release}"
            names = {n for n, v in self.versioned if v == node}
            self.assertIn("ibv_cmd_create_qp", names)
            self.assertIn("verbs_set_ops", names)
            self.assertIn("ibv_query_gid_type", names)
            self.assertIn("verbs_allow_disassociate_destroy", names)
            self.assertIn(f"verbs_register_driver_{release}", names)
            self.assertGreaterEqual(len(names), 72)

    def test_exports_nothing_else(self):
        self.assertEqual(self.bare, set())
        strange = {n for n, v in self.versioned
                   if not re.match(r"(_?ibv_|mult_to_|mbps_to_|_?verbs_|__verbs_log|execute_ioctl"
                                   r"|__ioctl_|verbena_rdmacm_|IBVERBS_|VERBENA_)", n)}
        self.assertEqual(strange, set())

    def test_needs_no_cxx_runtime(self):
        text = subprocess.check_output(["readelf", "-d", LIBRARY], text=True)
        needed = re.findall(r"NEEDED.*\[(.+)\]", text)
        self.assertNotIn("libstdc++.so.6", needed)
        self.assertNotIn("libgcc_s.so.1", needed)
        self.assertIn("Library soname: [libibverbs.so.1]", text)
        self.assertTrue(os.path.islink(os.path.join(os.path.dirname(LIBRARY), "libibverbs.so")))


@unittest.skipUnless(ORACLE, "no system libibverbs")
@unittest.skipUnless(shutil.which("abidiff"), "abidiff is not installed (abigail-tools)")
class Abidiff(unittest.TestCase):
    """libabigail's verdict on taking the distribution's library away and putting ours in its place.
    The distribution's has no debug information, so this is about symbols and their versions; the
    sizes and offsets of the types are abi_layout_test's."""

    CHANGE, INCOMPATIBLE = 4, 8  # bits of abidiff's exit status; 1 and 2 are its own errors

    def compare(self, *arguments):
        done = subprocess.run(["abidiff", *arguments], text=True, capture_output=True)
        self.assertEqual(done.returncode & 3, 0, done.stderr)
        return done

    def test_nothing_is_removed_or_changed(self):
        done = self.compare("--no-added-syms", ORACLE, LIBRARY)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"Functions changes summary: 0 Removed, 0 Changed, 0 Added")
        self.assertRegex(done.stdout, r"Variables changes summary: 0 Removed, 0 Changed, 0 Added")

    def test_it_would_have_seen_a_removal(self):
        done = self.compare(LIBRARY, ORACLE)  # the other way round our newer calls go away
        self.assertEqual(done.returncode, self.CHANGE | self.INCOMPATIBLE, done.stdout[:2000])
        self.assertIn("ibv_reg_mr_ex@@IBVERBS_1.15", done.stdout)


class Floor(unittest.TestCase):
    """What the machine must bring: docs/HACKING.md names the glibc."""

    GLIBC = (2, 35)
    # libm: of glibc, as libc is; the simulator draws with it.
    LIBRARIES = {"libc.so.6", "libm.so.6", "libisal.so.2", "ld-linux-x86-64.so.2",
                 "ld-linux-aarch64.so.1"}

    def files(self):
        lib = os.path.dirname(os.path.abspath(LIBRARY))
        bin_folder = os.path.join(os.path.dirname(lib), "bin")
        return [os.path.abspath(LIBRARY), os.path.join(lib, "libverbena-shim.so"),
                os.path.join(lib, "libverbena-audit.so"),
                os.path.join(lib, "libverbena-sockets.so"), os.path.join(bin_folder, "verbena"),
                os.path.join(bin_folder, "verbena-broker")]

    def setUp(self):
        with open(LIBRARY, "rb") as file:
            instrumented = re.search(rb"__(asan|tsan|ubsan)_", file.read())
        if instrumented:
            self.skipTest("a sanitizer build has other needs")

    def test_no_symbol_is_newer_than_the_floor(self):
        for path in self.files():
            text = subprocess.check_output(["objdump", "-T", path], text=True)
            wanted = re.findall(r"\*UND\*.*\(?GLIBC_(\d+)\.(\d+)[\d.]*\)?\s+(\S+)", text)
            self.assertGreater(len(wanted), 5, path)
            newer = [name for major, minor, name in wanted if (int(major), int(minor)) > self.GLIBC]
            self.assertEqual(newer, [], path)

    def test_no_other_library_is_needed(self):
        for path in self.files():
            text = subprocess.check_output(["readelf", "-d", path], text=True)
            self.assertLessEqual(set(re.findall(r"NEEDED.*\[(.+)\]", text)), self.LIBRARIES, path)


class AgainstTheOracle(unittest.TestCase):
    """Pure functions give what the distribution's give, asked in one process each."""

    ASK = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
for name in ('ibv_wc_status_str', 'ibv_event_type_str', 'ibv_node_type_str', 'ibv_port_state_str'):
    call = getattr(lib, name)
    call.restype = ctypes.c_char_p
    for i in range(-2, 30):
        print(name, i, call(i))
for name in ('ibv_rate_to_mult', 'ibv_rate_to_mbps'):
    for i in range(0, 40):
        print(name, i, getattr(lib, name)(i))
for name in ('mult_to_ibv_rate', 'mbps_to_ibv_rate'):
    for value in (0, 1, 2, 4, 6, 8, 10, 11, 12, 16, 20, 22, 24, 32, 40, 45, 48, 67, 80, 120, 160,
                  240, 320, 480, 2500, 5000, 10000, 14062, 25781, 28125, 53125, 56250, 103125,
                  112500, 168750, 206250, 309375, 425000, 637500, 850000, 1275000, 7):
        print(name, value, getattr(lib, name)(value))
"""

    def answers(self, path):
        out = subprocess.check_output([sys.executable, "-c", self.ASK, path], text=True)
        return dict(line.rsplit(" ", 1) if "str" not in line else
                    (" ".join(line.split(" ")[:2]), line) for line in out.splitlines())

    @unittest.skipUnless(ORACLE, "no system libibverbs")
    def test_strings_and_rates(self):
        self.maxDiff = None
        ours, theirs = self.answers(LIBRARY), self.answers(ORACLE)
        different = {}
        for key, value in theirs.items():
            if "unknown" in value or "invalid" in value:
                continue  # enumerators we know and they do not yet
            if ours[key] != value:
                different[key] = (ours[key], value)
        self.assertEqual(different, {})


@unittest.skipUnless(ORACLE, "no system libibverbs")
class Loading(unittest.TestCase):
    def test_vendor_libraries_load(self):
        """The driver interface is complete enough for eager binding."""
        folder = os.path.dirname(ORACLE)
        tried = 0
        for name in ("libmlx5.so.1", "libefa.so.1", "libmlx4.so.1", "libmana.so.1"):
            path = os.path.join(folder, name)
            if not os.path.exists(path):
                continue
            tried += 1
            code = f"import ctypes, os; ctypes.CDLL({path!r}, mode=os.RTLD_NOW)"
            environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
            done = subprocess.run([sys.executable, "-c", code], env=environment, text=True,
                                  capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
        if not tried:
            self.skipTest("no vendor library installed")

    def test_old_device_list_is_empty(self):
        """A program of the 2005 ABI loads and sees no device."""
        libc = ctypes.CDLL(None)
        libc.dlvsym.restype = ctypes.c_void_p
        handle = ctypes.CDLL(LIBRARY)._handle
        address = libc.dlvsym(ctypes.c_void_p(handle), b"ibv_get_device_list", b"IBVERBS_1.0")
        self.assertTrue(address)
        count = ctypes.c_int(7)
        call = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int))
        listed = call(address)(ctypes.byref(count))
        self.assertEqual((count.value, listed[0]), (0, None))


class Unloading(unittest.TestCase):
    def test_a_dlclose_leaves_the_code_of_the_progress_thread_mapped(self):
        code = ("import ctypes, _ctypes, os\n"
                f"path = {LIBRARY!r}\n"
                "library = ctypes.CDLL(path)\n"
                "library.ibv_get_device_list.restype = ctypes.c_void_p\n"
                "assert library.ibv_get_device_list(None)\n"
                "_ctypes.dlclose(library._handle)\n"
                "ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)\n"
                "assert path in open('/proc/self/maps').read()\n")
        done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)  # a skipped case says why
