"""The multi-threaded verbs program of this folder, over both roads. Under a sanitizer preset the
library and the program are instrumented alike."""

import os

import harness
from harness import BUILD, AppTest, environment, run


class Stress(AppTest):
    def go(self, **extra):
        outcome = run([os.path.join(BUILD, "bin", "verbs_stress"), "4", "3"], seconds=120,
                      env=environment(**extra))
        self.assert_ok(outcome)
        self.assertRegex(outcome.output, r"\d+ transfers compared, \d+ events")

    def test_local(self):
        self.go()

    def test_wire(self):
        self.go(VERBENA_LOCAL="off")

    def test_wire_with_losses(self):
        self.go(VERBENA_LOCAL="off", VERBENA_FAULT="drop=1%,seed=7")


if __name__ == "__main__":
    harness.main()
