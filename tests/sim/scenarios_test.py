"""Every file in scenarios/ runs, and what it expects comes out."""

import glob
import os
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERBENA = os.path.join(os.environ["VERBENA_BUILD"], "bin", "verbena")


class Scenarios(unittest.TestCase):
    def test_each_one_comes_out_as_it_says(self):
        files = sorted(glob.glob(os.path.join(ROOT, "scenarios", "**", "*.toml"), recursive=True))
        self.assertGreaterEqual(len(files), 40)
        for file in files:
            with self.subTest(file=os.path.relpath(file, ROOT)):
                with open(file, encoding="utf-8") as text:
                    self.assertIn("\n[expect]\n", text.read())
                done = subprocess.run([VERBENA, "sim", file], capture_output=True, text=True,
                                      timeout=280, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
