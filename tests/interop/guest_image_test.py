#!/usr/bin/env python3
"""scripts/guest-image says "cannot be had here" (status 77 and the reason, which the tests print
when they skip) only of what it is true of. A fault of its own is an error, and `make guest` fails:
otherwise a broken script would look like a machine without network, and nothing would be tested."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import guest

SCRIPT = os.path.join(guest.ROOT, "scripts", "guest-image")
KERNEL = "linux-image-9.9-test"
KNOWS_A_KERNEL = f"echo '  Depends: {KERNEL}'"


class GuestImage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="verbena-image-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.tools = os.path.join(self.folder, "tools")
        self.image = os.path.join(self.folder, "image")
        os.mkdir(self.tools)

    def tool(self, name, script):
        path = os.path.join(self.tools, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(path, stat.S_IRWXU)

    def make(self, *suite, path=None):
        path = path or f"{self.tools}:{os.environ['PATH']}:/usr/sbin:/sbin"
        done = subprocess.run(["bash", SCRIPT, self.image, *suite], capture_output=True, text=True,
                              env={**os.environ, "PATH": path})
        return done.returncode, done.stdout + done.stderr

    def assert_missing(self, outcome, reason):
        """Status 77, and the tests that look for the image skip with the same words."""
        self.assertEqual(outcome[0], 77, outcome[1])
        self.assertIn(f"guest-image: SKIP: {reason}", outcome[1])
        with self.assertRaises(guest.Missing) as why:
            guest.find_image(self.image, qemu="sh")
        self.assertIn(reason, str(why.exception))

    def assert_broken(self, outcome, says):
        self.assertNotIn(outcome[0], [0, 77], outcome[1])
        self.assertNotIn("SKIP", outcome[1])
        self.assertIn(says, outcome[1])
        self.assertEqual([name for name in os.listdir(self.image) if name in
                          ("manifest", "missing")], [])

    def test_no_apt_is_missing(self):
        for name in ["bash", "dirname", "mkdir", "rm", "mktemp", "tee"]:
            os.symlink(shutil.which(name), os.path.join(self.tools, name))
        self.assert_missing(self.make(path=self.tools), "there is no apt-get here")

    def test_no_known_kernel_is_missing(self):
        self.tool("apt-cache", "exit 0")
        self.assert_missing(self.make(), "apt knows no linux-image-amd64")

    def test_a_silent_archive_is_missing(self):
        self.tool("apt-cache", KNOWS_A_KERNEL)
        self.tool("apt-get", "echo 'E: Failed to fetch it  Connection refused' >&2; exit 100")
        self.assert_missing(self.make(),
                            f"{KERNEL}: Failed to fetch it  Connection refused")

    def test_a_silent_archive_of_another_suite_is_missing(self):
        self.tool("apt-cache", KNOWS_A_KERNEL)
        self.tool("apt-get", 'case "$1" in\n'
                  "  indextargets) . /etc/os-release; echo $VERSION_CODENAME http://nowhere ;;\n"
                  "  *) echo 'W: Failed to fetch http://nowhere' >&2; exit 100 ;;\nesac")
        self.assert_missing(self.make("elsewhere"),
                            "no lists of elsewhere: Failed to fetch http://nowhere")

    def test_a_package_that_does_not_unpack_is_a_fault(self):
        self.tool("apt-cache", KNOWS_A_KERNEL)
        self.tool("apt-get", 'for package; do :; done; echo no package > "${package}_1_amd64.deb"')
        self.assert_broken(self.make(), "dpkg-deb: error")

    def test_a_reason_is_forgotten_when_it_is_over(self):
        self.tool("apt-cache", "exit 0")
        self.assert_missing(self.make(), "apt knows no linux-image-amd64")
        self.tool("apt-cache", KNOWS_A_KERNEL)
        self.tool("apt-get", 'for package; do :; done; echo no package > "${package}_1_amd64.deb"')
        self.assert_broken(self.make(), "dpkg-deb: error")


if __name__ == "__main__":
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(not program.result.wasSuccessful())
