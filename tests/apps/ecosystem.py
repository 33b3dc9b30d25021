"""What the tests of the ecosystem share: whole programs of other people (storage testers, MPI,
hypervisors) over Verbena, unmodified, from Debian's packages. `make test` runs short forms of
them, `make test-apps` (VERBENA_APPS=long) the long ones."""

import os
import select
import shutil
import signal
import subprocess
import time
import unittest

import harness
from counters_test import Counters, plain_environment

LONG = os.environ.get("VERBENA_APPS") == "long"
ROADS = {"local": {}, "wire": {"VERBENA_LOCAL": "off"}}


def needs(*programs):
    """Skips a test, saying what is missing, where one of the programs (names on the PATH, or paths
    of files) is not installed. `make test` installs them all (scripts/packages.txt)."""
    missing = [p for p in programs if not (os.path.exists(p) if "/" in p else shutil.which(p))]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def long_form(reason):
    """Marks a test that only `make test-apps` runs; `reason` says why it is not in `make test`."""
    return unittest.skipUnless(LONG, f"long form (make test-apps): {reason}")


def compiled(source, *libraries, compiler="cc", options=()):
    """Compiles a C program that stands beside the tests, with the system's own headers and
    libraries: what a user's build would make. Returns its path, in the build folder."""
    out = os.path.join(harness.BUILD, "tests", "apps", os.path.splitext(source)[0])
    os.makedirs(os.path.dirname(out), exist_ok=True)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), source)
    command = [compiler, "-O2", "-Wall", "-Werror", "-o", out, source, *options,
               *(f"-l{name}" for name in libraries)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{made.stdout}{made.stderr}")
    return out


class Ecosystem(harness.AppTest):
    """A test of whole programs. Ends what it started, with the children of those, by pid and also
    when it fails."""

    def setUp(self):
        self.started = []
        self.addCleanup(self.end_all)

    def start(self, command, prefix=(), user=None, env=None, **variables):
        """Starts a program over Verbena (or with `env`, wholly as given); ended with the test."""
        process = harness.start(command, env or harness.environment(**variables), prefix, user)
        self.started.append(process)
        return process

    def heard(self, process, words, seconds=60):
        """Reads what a program says until the words appear, or to its end; returns all of that."""
        said = b""
        deadline = time.monotonic() + seconds
        while words.encode() not in said:
            left = max(0, deadline - time.monotonic())
            if not select.select([process.stdout], [], [], left)[0]:
                self.fail(f"not said in {seconds} s: {words!r}\n{said.decode(errors='replace')}")
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                break
            said += piece
        return said.decode(errors="replace")

    def says(self, process, words, seconds=60):
        """As heard(), and fails when the program ends without saying the words."""
        said = self.heard(process, words, seconds)
        if words not in said:
            self.fail(f"it ended with {process.wait()} before it said {words!r}:\n{said}")
        return said

    def end_all(self):
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # harness.start gives each a group
            except ProcessLookupError:
                pass
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                pass  # a grandchild with a session of its own still holds the pipe

    def explained(self, command, seconds=60, **variables):
        """Runs a program to its end; on failure once more with the explain log, whose lines then
        stand in the test's message."""
        outcome = harness.run(command, seconds, harness.environment(**variables))
        if outcome.code != 0:
            again = harness.run(command, seconds,
                                harness.environment(VERBENA_LOG="explain", **variables))
            self.fail(f"{' '.join(command)} ended with {outcome.code}:\n{outcome.output}\n"
                      f"---- explained\n{again.output}")
        return outcome.output


class OnDevice(Counters, Ecosystem):
    """Whole programs under `verbena run`, on a device of their own (`self.device`) whose counter
    files say what really went through Verbena: these programs fall back to TCP or shared memory
    without a word."""

    def setUp(self):
        Counters.setUp(self)
        Ecosystem.setUp(self)

    def launch(self, command, mode="env", **variables):
        return self.start([*self.verbena(mode), *command], env=plain_environment(**variables))

    def bytes_sent(self):
        """Payload that left through the device, in all processes that have ended."""
        return 4 * self.read("counters/port_xmit_data")
