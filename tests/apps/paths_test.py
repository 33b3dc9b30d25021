#!/usr/bin/env python3
"""What programs see outside the verbs API under `verbena run`: /sys/class/infiniband and
/dev/infiniband in every mode, as root and as nobody; and how run refuses what it cannot run."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import harness
from harness import AppTest, VERBENA, run

NOBODY = 65534
HAVE_IBSTAT = shutil.which("ibstat") is not None
HAVE_UCX = shutil.which("ucx_info") is not None
HAVE_VERBS = os.path.exists(os.path.join(harness.LIB, "libibverbs.so.1"))


def verbena(*arguments, user=None, **extra):
    env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    env.update(extra)
    return run([VERBENA, *arguments], env=env, user=user)


def user_namespaces():
    """Whether nobody may make a user and mount namespace here."""
    return subprocess.run(["unshare", "-Urm", "true"], user=NOBODY,
                          capture_output=True).returncode == 0


class Modes(AppTest):
    def check_view(self, mode, user=None):
        script = (
            "cat /sys/class/infiniband/probe0/ports/1/link_layer\n"
            "cat /sys/class/infiniband/probe0/ports/1/gids/0\n"
            "ls /sys/class/infiniband/probe0/device/net\n"
            "readlink -f /sys/class/infiniband/probe0/device\n"
            "stat -Lc %F /dev/infiniband/uverbs0 /dev/infiniband/probe0\n"
            "cd /sys/class/infiniband/probe0 && cat node_type\n"
            "echo /sys/class/infiniband/*\n"
            "echo written > /dev/null && echo null\n")
        outcome = verbena("run", "--device", "probe0=near0", "--mode", mode, "--", "/bin/sh", "-c",
                          script, user=user)
        self.assert_ok(outcome)
        self.assertEqual(outcome.output.splitlines(), [
            "Ethernet", "0000:0000:0000:0000:0000:ffff:0a63:0001", "near0",
            "/sys/devices/pcibe00:00/be00:00:00.0", "character special file",
            "character special file", "1: CA", "/sys/class/infiniband/probe0", "null"])

    def test_env(self):
        self.check_view("env")

    def test_audit(self):
        self.check_view("audit")

    def test_namespace(self):
        self.check_view("ns")

    def test_env_as_nobody(self):
        self.check_view("env", user=NOBODY)

    def test_namespace_as_nobody(self):
        if not user_namespaces():
            self.skipTest("no user namespaces for users here")
        self.check_view("ns", user=NOBODY)

    def test_namespace_keeps_the_user_and_the_rest_of_sys_and_dev(self):
        if not user_namespaces():
            self.skipTest("no user namespaces for users here")
        outcome = verbena("run", "--mode", "ns", "--", "/bin/sh", "-c",
                          "id -u; id -g; test -d /sys/class/net && echo net; "
                          "test -c /dev/zero && head -c1 /dev/zero | wc -c; test -d /dev/shm && "
                          "echo shm; pwd", user=NOBODY)
        self.assert_ok(outcome)
        self.assertEqual(outcome.output.split(),
                         ["65534", str(os.getgid()), "net", "1", "shm", harness.USERS_FOLDER])

    def test_namespace_leaves_the_machine_alone(self):
        self.assert_ok(verbena("run", "--mode", "ns", "--", "/bin/true"))
        self.assertFalse(os.path.exists("/dev/infiniband/probe0"))
        mounts = pathlib.Path("/proc/self/mounts").read_text()
        self.assertNotIn("verbena /sys", mounts)
        self.assertNotIn("verbena /dev", mounts)

    def test_no_parent_process_is_left(self):
        outcome = verbena("run", "--", "/bin/sh", "-c", "cat /proc/$PPID/comm")
        self.assert_ok(outcome)
        self.assertTrue(outcome.output.startswith("python3"), outcome.output)


@unittest.skipUnless(HAVE_IBSTAT, "ibstat is not installed (infiniband-diags)")
class InfinibandDiags(AppTest):
    def test_ibstat(self):
        for mode in ["env", "ns"]:
            outcome = verbena("run", "--device", "probe0=near0", "--mode", mode, "--", "ibstat")
            self.assert_ok(outcome)
            for text in ["CA 'probe0'", "State: Active", "Rate: 100", "Link layer: Ethernet"]:
                self.assertIn(text, outcome.output)

    def test_ibstatus(self):
        for mode in ["env", "ns"]:
            outcome = verbena("run", "--device", "probe0=near0", "--mode", mode, "ibstatus")
            self.assert_ok(outcome)
            self.assertIn("Infiniband device 'probe0' port 1 status:", outcome.output)
            self.assertIn("0000:0000:0000:0000:0000:ffff:0a63:0001", outcome.output)


@unittest.skipUnless(HAVE_UCX and HAVE_VERBS, "ucx_info is not installed (ucx-utils)")
class Ucx(AppTest):
    def test_ucx_finds_the_device(self):
        outcome = verbena("run", "--device", "probe0=near0", "--", "ucx_info", "-d")
        self.assert_ok(outcome)
        self.assertIn("probe0:1", outcome.output)
        self.assertIn("rc_verbs", outcome.output)


class Refusals(AppTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, *options):
        path = os.path.join(self.folder, "program")
        source = path + ".c"
        pathlib.Path(source).write_text("int main(void) { return 7; }\n")
        done = subprocess.run(["cc", "-o", path, source, *options], capture_output=True)
        return path if done.returncode == 0 else None

    def test_exit_status_is_the_programs(self):
        self.assertEqual(verbena("run", self.compile()).code, 7)

    def test_missing_program(self):
        outcome = verbena("run", "--", "no-such-program")
        self.assertEqual(outcome.code, 127)
        self.assertEqual(outcome.output, "verbena run: no-such-program: not found in PATH\n")

    @unittest.skipUnless(os.path.exists("/usr/sbin/ibstat"), "ibstat is not in /usr/sbin")
    def test_an_administrators_program_as_a_user(self):
        outcome = verbena("run", "--", "ibstat", PATH="/usr/bin:/bin")
        self.assertEqual(outcome.code, 127)
        self.assertEqual(outcome.output, "verbena run: ibstat: not found in PATH, which lacks its "
                                         "folder; write /usr/sbin/ibstat\n")

    def test_a_misspelt_option_is_no_program(self):
        outcome = verbena("run", "--devise", "lo", "--", "/bin/true")
        self.assertEqual(outcome.code, 2)
        self.assertTrue(outcome.output.startswith("verbena run: there is no option --devise; "))

    def test_not_executable(self):
        self.assertEqual(verbena("run", "/etc/passwd").code, 126)

    def test_no_program(self):
        outcome = verbena("run")
        self.assertEqual(outcome.code, 2)
        self.assertIn("no program given", outcome.output)

    def test_static(self):
        path = self.compile("-static")
        if path is None:
            self.skipTest("no static C library here")
        outcome = verbena("run", "--", path)
        self.assertEqual(outcome.code, 2)
        self.assertIn("is statically linked", outcome.output)
        self.assertIn("--mode ns", outcome.output)
        self.assertEqual(outcome.output.count("\n"), 1)
        self.assertEqual(verbena("run", "--mode", "ns", "--", path).code, 7)

    def test_set_user_id(self):
        if os.geteuid() != 0:
            self.skipTest("only root can make a program of another user")
        path = self.compile()
        os.chown(path, NOBODY, NOBODY)
        os.chmod(path, 0o4755)
        outcome = verbena("run", "--", path)
        self.assertEqual(outcome.code, 2)
        self.assertIn("is set-user-ID", outcome.output)
        self.assertEqual(outcome.output.count("\n"), 1)

    def test_a_directory_is_no_program(self):
        outcome = verbena("run", self.folder)
        self.assertEqual(outcome.code, 126)
        self.assertEqual(outcome.output,
                         f"verbena run: {self.folder} is a directory, not a program\n")

    def test_unknown_mode(self):
        outcome = verbena("run", "--mode", "foo", "--", "/bin/true")
        self.assertEqual(outcome.code, 2)
        self.assertIn("--mode: 'foo' is no mode; modes: auto, env, ns, audit", outcome.output)
        self.assertNotIn("\0", outcome.output)

    def test_settings_that_would_fail_later(self):
        for name, value, sentence in [
                ("VERBENA_LOCAL", "maybe", "use on or off"),
                ("VERBENA_FAULT", "dorp=1%", "dorp"),
                ("VERBENA_PCAP", "/nowhere/x.pcap", "cannot write /nowhere/x.pcap"),
                ("VERBENA_LOG", "explian", "use explain or explain:FILE")]:
            outcome = verbena("run", "--", "/bin/true", **{name: value})
            self.assertEqual(outcome.code, 2, name)
            self.assertIn(name, outcome.output)
            self.assertIn(sentence, outcome.output)
            self.assertEqual(outcome.output.count("\n"), 1)

    def test_a_misspelt_setting_is_told_and_stops_nothing(self):
        for command in (["run", "--", "true"], ["devices"]):
            with self.subTest(command=command[0]):
                outcome = verbena(*command, VERBENA_LGO="explain")
                self.assertEqual(outcome.code, 0, outcome.output)
                told = [line for line in outcome.output.splitlines() if "note:" in line]
                self.assertEqual(told, [
                    f"verbena {command[0]}: note: VERBENA_LGO is no setting of Verbena and does "
                    "nothing; did you mean VERBENA_LOG?"])

    def test_a_wrong_folder_of_libraries_is_not_passed_over(self):
        outcome = verbena("run", "--", "true", VERBENA_LIB="/nowhere")
        self.assertEqual(outcome.code, 1, outcome.output)
        self.assertEqual(outcome.output,
                         "verbena run: VERBENA_LIB=/nowhere holds no libverbena-shim.so; name the "
                         "folder of Verbena's libraries, or leave it unset\n")

    def test_what_waits_for_ever_when_opened(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        for path, why in ((fifo, "no regular file"), ("/dev/zero", "no regular file"),
                          (self.folder, "a directory")):
            outcome = run([VERBENA, "devices"], seconds=10,
                          env=dict(os.environ, VERBENA_CONFIG=path))
            self.assertEqual(outcome.code, 2)
            self.assertEqual(outcome.output, f"verbena devices: cannot read VERBENA_CONFIG={path}: "
                                             f"{why}; name a TOML file\n")
        # As a log nobody writes it is an empty one; a shell's <(...) is read.
        outcome = run([VERBENA, "explain", fifo], seconds=10)
        self.assertEqual(outcome.code, 0)
        self.assertIn('no line starts with "verbena: "', outcome.output)
        script = f"{VERBENA} explain <(sleep 0.2; echo 'verbena: [1] a cause')"
        outcome = run(["bash", "-c", script], seconds=10)
        self.assert_ok(outcome)
        self.assertIn("1 times: [1] a cause", outcome.output)
        self.assertEqual(run([VERBENA, "explain", "/dev/zero"], seconds=10).code, 2)

    def test_logs_into_what_nobody_reads(self):
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        why = f"{fifo}: No such device or address"
        # A log or capture that cannot be opened is refused where the queue pair is made; the
        # sentence is in the explain log, where there is one, and nowhere else.
        for name, value, sentence in (
                ("VERBENA_LOG", "explain:" + fifo, None),
                ("VERBENA_TRACE", "packets:" + fifo, f"VERBENA_TRACE: cannot open {why}"),
                ("VERBENA_PCAP", fifo, "cannot open the capture file " + why)):
            outcome = self.make_queue_pair([VERBENA, "run", "--"], **{name: value})
            self.assertIn("Couldn't create QP", outcome.output)
            self.assertNotIn("verbena: ", outcome.output)
            if sentence is not None:
                outcome = self.make_queue_pair([VERBENA, "run", "--explain", "--"], **{name: value})
                self.assertIn(sentence, outcome.output)

    def test_settings_without_the_command(self):
        """The library path alone: the same refusals, where the queue pair is made."""
        for name, value, sentence in [
                ("VERBENA_LOCAL", "maybe", "use on or off"),
                ("VERBENA_FAULT_GUARD", "maybe", "use on or off"),
                ("VERBENA_FAULT", "dorp=1%", "dorp"),
                ("VERBENA_TRACE", "pockets", "use packets or packets:FILE"),
                ("VERBENA_LOG", "explian", None)]:
            quiet = self.make_queue_pair([], LD_LIBRARY_PATH=harness.LIB, **{name: value})
            self.assertIn("Couldn't create QP", quiet.output)
            self.assertNotIn("verbena: ", quiet.output)
            self.assertNotIn(name, quiet.output)
            if sentence is not None:
                said = self.make_queue_pair([], LD_LIBRARY_PATH=harness.LIB, VERBENA_LOG="explain",
                                            **{name: value})
                self.assertIn(sentence, said.output)
                self.assertIn("cannot attach: ", said.output)

    def make_queue_pair(self, prefix, **settings):
        """A client of ibv_rc_pingpong without a server: makes its queue pair before it connects."""
        outcome = run([*prefix, "ibv_rc_pingpong", "-g", "0", "-p", str(harness.free_port()),
                       harness.NEAR], seconds=20, env=dict(os.environ, **settings))
        self.assertEqual(outcome.code, 1, outcome.output)
        return outcome

    def test_missing_interface(self):
        outcome = verbena("run", "--device", "a=eth9", "--", "/bin/true")
        self.assertEqual(outcome.code, 2)
        self.assertIn("wants interface 'eth9', which does not exist; interfaces here: lo",
                      outcome.output)

    def test_malformed_config(self):
        path = os.path.join(self.folder, "v.toml")
        pathlib.Path(path).write_text("mtu = 1024\n[[device]\n")
        outcome = verbena("devices", VERBENA_CONFIG=path)
        self.assertEqual(outcome.code, 2)
        self.assertTrue(outcome.output.startswith(f"verbena devices: {path}:2: not valid TOML"),
                        outcome.output)
        self.assertEqual(outcome.output.count("\n"), 1)


class SecondUser(AppTest):
    """Another user's process holds the port."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be two users")
        port = str(harness.free_port())
        self.holder = harness.start([VERBENA, "run", "--", "ibv_rc_pingpong", "-g", "0", "-p",
                                     port], env=None)
        harness.wait_listening(int(port), self.holder)

    def tearDown(self):
        self.holder.kill()
        harness.finish(self.holder, 20)

    def test_is_told_who_holds_it(self):
        outcome = verbena("run", "--", "ibv_devices", user=NOBODY)
        self.assert_ok(outcome)
        first, *rest = outcome.output.splitlines()
        self.assertRegex(first, r"^verbena run: note: no queue pair can be made here: UDP port 4791"
                                r" .* by a broker of uid 0 \(pid \d+\), and this process has uid "
                                r"65534; .*unshare -rn$")
        self.assertIn("verbena0", "\n".join(rest))

    def test_runs_in_a_network_of_its_own_where_uid_0_has_the_private_name(self):
        if not user_namespaces():
            self.skipTest("no user namespaces for users here")
        port = harness.free_port()
        program = f"'{VERBENA}' run -- ibv_rc_pingpong -g 0 -n 100 -p {port}"
        script = (f"ip link set lo up && {{ {program} & sleep 1; {program} 127.0.0.1; wait; }}")
        outcome = run(["unshare", "-rn", "sh", "-c", script], user=NOBODY,
                      env=dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin"))
        self.assert_ok(outcome)
        self.assertEqual(outcome.output.count("100 iters in"), 2, outcome.output)
        self.assertNotIn("note:", outcome.output)


class Command(AppTest):
    def test_help_of_every_command(self):
        self.assert_ok(verbena("--help"))
        for command in ["run", "devices", "stats", "explain", "doctor"]:
            outcome = verbena(command, "--help")
            self.assert_ok(outcome)
            self.assertIn("Usage: verbena " + command, outcome.output)

    def test_unknown_command_is_a_misuse(self):
        outcome = verbena("dance")
        self.assertEqual(outcome.code, 2)
        self.assertEqual(outcome.output, "verbena: 'dance' is no command; commands: run, devices, "
                                         "stats, explain, doctor, sim, fabric\n")
        bare = verbena()
        self.assertEqual(bare.code, 2)
        self.assertIn("Usage: verbena ", bare.output)
        self.assertIn("doctor", bare.output)

    def test_help_as_a_command(self):
        self.assertEqual(verbena("help").output, verbena("--help").output)
        self.assertEqual(verbena("help", "stats").output, verbena("stats", "--help").output)

    def test_a_misuse_is_one_line_that_names_the_command(self):
        for words in (["devices", "x"], ["devices", "--", "x"], ["stats", "-i", "0"],
                      ["stats", "-i", "nan"], ["stats", "-i", "inf"], ["stats", "-i", "3601"],
                      ["stats", "--", "x"], ["doctor"], ["doctor", "a", "b"], ["explain", "-5000"],
                      ["explain", "--", "-5000"], ["run", "--mode"]):
            outcome = verbena(*words)
            self.assertEqual(outcome.code, 2, words)
            self.assertTrue(outcome.output.startswith(f"verbena {words[0]}: "), outcome.output)
            self.assertEqual(outcome.output.count("\n"), 1, outcome.output)

    def test_devices(self):
        outcome = verbena("devices", "--json")
        self.assert_ok(outcome)
        devices = json.loads(outcome.output)["devices"]
        # far0 has only a link-local address, so it stands between the two.
        self.assertEqual([d["interface"] for d in devices], ["near0", "far0", "lo"])
        self.assertEqual(devices[0]["gids"][0]["address"], harness.NEAR)
        self.assertEqual(devices[0]["gids"][0]["reason"], "IPv4 address 10.99.0.1/24 of near0")

    def test_arguments_pass_unchanged(self):
        outcome = verbena("run", "/bin/echo", "--device", "x", "--", "-h", "a b")
        self.assert_ok(outcome)
        self.assertEqual(outcome.output, "--device x -- -h a b\n")
        outcome = verbena("run", "--", "/bin/echo", "--version", "--", "-n")
        self.assert_ok(outcome)
        self.assertEqual(outcome.output, "--version -- -n\n")

    def test_doctor_knows_who_depends_on_rdma_cm(self):
        outcome = verbena("doctor", "ib_write_bw")
        self.assert_ok(outcome)
        self.assertIn("result       will run: verbena run --mode env", outcome.output)
        outcome = verbena("doctor", "rping")
        self.assert_ok(outcome)
        self.assertRegex(outcome.output, r"librdmacm.so.1 -> \S+ \(Verbena's\)")
        self.assertIn("result       will run: verbena run --mode env", outcome.output)

    def test_dlopen_by_an_absolute_name_gives_ours(self):
        system = os.path.realpath("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
        if not os.path.exists(system):
            self.skipTest("no system libibverbs")
        code = (f"import ctypes; lib = ctypes.CDLL('{system}'); count = ctypes.c_int();"
                "lib.ibv_get_device_list.restype = ctypes.c_void_p;"
                "lib.ibv_get_device_list(ctypes.byref(count)); print(count.value)")
        for mode in ("env", "audit", "ns"):
            outcome = verbena("run", "--device", "a0=near0", "--device", "b0=lo", "--mode", mode,
                              "--", "python3", "-c", code)
            self.assert_ok(outcome)
            self.assertEqual(outcome.output, "2\n", mode)

    def test_print_env_is_shell(self):
        outcome = verbena("run", "--device", "probe0=near0", "--print-env")
        self.assert_ok(outcome)
        script = outcome.output + "cat /sys/class/infiniband/probe0/node_type"
        shell = run(["/bin/sh", "-c", script])
        self.assert_ok(shell)
        self.assertEqual(shell.output, "1: CA\n")

    def test_stats_without_processes(self):
        outcome = verbena("stats")
        self.assert_ok(outcome)
        self.assertEqual(outcome.output, "no RDMA process runs in this network namespace\n")
        self.assertIn("verbena_processes 0", verbena("stats", "--prometheus").output)

    def test_bash_completion(self):
        script = os.path.join(os.path.dirname(__file__), "../../scripts/verbena.bash-completion")
        complete = (f"source {script}; COMP_WORDS=(verbena {{}}); COMP_CWORD=$((${{#COMP_WORDS[@]}}"
                    "-1)); _verbena; echo ${COMPREPLY[@]}")

        def words(line):
            text = complete.replace("{}", line).replace("{{", "{").replace("}}", "}")
            return run(["bash", "--norc", "-c", text]).output.split()

        self.assertEqual(words("d"), ["devices", "doctor"])
        self.assertEqual(words("run --mode a"), ["auto", "audit"])
        self.assertEqual(words("stats --pro"), ["--prometheus"])


if __name__ == "__main__":
    harness.main()
