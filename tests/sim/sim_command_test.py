"""verbena sim as a user meets it: what it prints, the files it leaves, its exit statuses. The
worlds are small; that their numbers are right is tested elsewhere."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

BUILD = os.path.abspath(os.environ.get("VERBENA_BUILD", "build"))
VERBENA = os.path.join(BUILD, "bin", "verbena")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

INCAST = """
[scenario]
description = "three to one"
[topology]
kind = "star"
hosts = 4
[[workload]]
kind = "incast"
from = "0-2"
to = 3
bytes = "100KB"
[expect]
flows_done = 3
drops = 0
"""

ENDLESS = """
[scenario]
duration = "3600s"
[[flow]]
from = 0
to = 1
"""


class Sim(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="verbena-sim-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.scenario("incast.toml", INCAST)

    def path(self, name):
        return os.path.join(self.folder, name)

    def scenario(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def sim(self, *arguments, status=0):
        done = subprocess.run([VERBENA, "sim", *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def summary(self, *arguments):
        return json.loads(self.sim("incast.toml", "--json", *arguments).stdout)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def rows(self, name):
        return list(csv.DictReader(self.read(name).splitlines()))

    def tshark(self, *arguments):
        done = subprocess.run(["tshark", *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def left(self):
        return sorted(os.listdir(self.folder))


class Output(Sim):
    def test_tables(self):
        done = self.sim("incast.toml")
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "incast: three to one")
        self.assertRegex(lines[1], r"^4 hosts, 1 switch, 3 flows; \d+\.\d us simulated; seed 1$")
        self.assertRegex(done.stdout, r"(?m)^flows +number +done +FCT mean")
        self.assertRegex(done.stdout, r"(?m)^10 - 100 KB +3 +3 ")
        self.assertRegex(done.stdout, r"(?m)^s0:3 -> h3 +\d+\.\d % ")
        self.assertRegex(done.stdout, r"(?m)^drops +0$")
        self.assertIn("expectations: 2 of 2 met", lines)
        self.assertRegex(lines[-1], r"^trace [0-9a-f]{16}; .* packet-hops, .* events each; ")
        self.assertEqual(done.stderr, "")   # no progress where stderr is no terminal

    def test_one_seed_one_hash(self):
        def trace(*arguments):
            return self.summary(*arguments)["trace"]
        self.assertEqual(trace(), trace("--seed", "1"))
        # What looks on changes nothing.
        self.assertEqual(trace(), trace("--trace", "t.txt", "--pcap", "h0=h0.pcapng"))
        self.assertEqual(trace(), trace("--out", "out", "--report", "r.html"))
        self.assertNotEqual(trace(), trace("--set", "workload.0.bytes=99KB"))

    def test_json(self):
        summary = self.summary()
        self.assertEqual(summary["name"], "incast")
        self.assertEqual(summary["end"], "complete")
        self.assertEqual(summary["values"]["flows_done"], 3)
        self.assertEqual(summary["values"]["drops"], 0)
        self.assertEqual(summary["all"]["flows"], 3)
        self.assertEqual(summary["unmet"], [])

    def test_goodput_is_that_of_a_full_link(self):
        # 1024 bytes of payload take 1106 of link time: 92.59 of 100 Gb/s.
        values = self.summary("--set", "workload.0.bytes=10MB",
                              "--set", "host.congestion=none")["values"]
        self.assertAlmostEqual(values["goodput_gbps"], 92.5, delta=0.3)

    def test_quiet(self):
        done = self.sim("incast.toml", "--quiet")
        self.assertEqual(done.stdout + done.stderr, "")

    def test_nothing_is_left_beside_the_files_asked_for(self):
        self.sim("incast.toml", "--out", "out", "--report", "r.html", "--trace", "t.txt",
                 "--pcap", "h0=h0.pcapng", "--pcap", "s0:3=s.pcapng")
        self.assertEqual(self.left(), ["h0.pcapng", "incast.toml", "out", "r.html", "s.pcapng",
                                       "t.txt"])
        self.assertEqual(sorted(os.listdir(self.path("out"))),
                         ["flows.csv", "ports.csv", "scenario.toml", "series.csv", "summary.json"])

    def test_every_value_is_in_the_manual(self):
        with open(os.path.join(ROOT, "docs", "simulation.md")) as file:
            manual = file.read()
        named = set(re.findall(r"`([a-z0-9_]+)`", manual[manual.index("## Names of values"):]))
        self.assertEqual(set(self.summary()["values"]), named - {"expect"})


class Statuses(Sim):
    def test_an_expectation_that_is_not_met(self):
        done = self.sim("incast.toml", "--set", "expect.flows_done=4", status=1)
        self.assertIn("expectations: 1 of 2 met", done.stdout)
        self.assertRegex(done.stdout, r"expected flows_done 4, it is 3")

    def test_mistakes(self):
        self.scenario("wrong.toml", INCAST.replace("drops", "drps").replace("kind = \"star\"",
                                                                           "kind = \"stir\""))
        for arguments, message in (
                (["missing.toml"], r"^verbena sim: cannot open missing\.toml"),
                (["wrong.toml"], r"^verbena sim: wrong\.toml:5: topology\.kind"),
                (["incast.toml", "--set", "switch.ecn.mim=1"], r"switch\.ecn\.mim"),
                (["incast.toml", "--set", "host.congestion=swift", "--set",
                  "workload.0.verb=read"],
                 r"^verbena sim: incast\.toml: h3 answers a READ: nothing acknowledges READ"),
                (["incast.toml", "--set", "x"], r"^verbena sim: --set x: write KEY=VALUE$"),
                (["incast.toml", "--seed", "many"], r"scenario\.seed"),
                (["incast.toml", "--pcap", "h9=x"],
                 r"^verbena sim: --pcap h9=x: no node is called h9; there are h0 to s0$"),
                (["incast.toml", "--pcap", "h0"], r"write PORT=FILE"),
                (["incast.toml", "--sweep", "scenario.seed=1,"], r"an empty value"),
                (["incast.toml", "--sweep", "scenario.seed=1", "--trace", "t"], r"excludes"),
                (["incast.toml", "--nonsense"], r"--nonsense"),
                ([], r"FILE")):
            with self.subTest(arguments=arguments):
                done = self.sim(*arguments, status=2)
                self.assertEqual(done.stdout, "")
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertRegex(done.stderr.strip(), message)
        self.assertEqual(self.left(), ["incast.toml", "wrong.toml"])

    def test_files_that_cannot_be_written(self):
        for arguments, name in ((["--trace", "no/t.txt"], "no/t.txt"),
                                (["--report", "no/r.html"], "no/r.html"),
                                (["--pcap", "h0=/dev/full"], "/dev/full"),
                                (["--trace", "/dev/full"], "/dev/full"),
                                (["--report", "/dev/full"], "/dev/full")):
            with self.subTest(arguments=arguments):
                done = self.sim("incast.toml", "-q", *arguments, status=1)
                self.assertRegex(done.stderr, rf"^verbena sim: cannot write {name}: [A-Z].*\n$")
        done = self.sim("incast.toml", "-q", "--out", "incast.toml/out", status=1)
        self.assertRegex(done.stderr, r"^verbena sim: cannot make the folder incast.toml/out: ")
        self.assertEqual(self.left(), ["incast.toml"])

    def test_outputs_replace_neither_inputs_nor_each_other(self):
        os.symlink("incast.toml", self.path("link.toml"))
        os.link(self.path("incast.toml"), self.path("hard.toml"))
        os.mkdir(self.path("made"))
        replaced = "this would replace incast.toml, which is read"
        for arguments, message in [
                (["--report", "incast.toml"], f"--report incast.toml: {replaced}"),
                (["--report", "./made/../incast.toml"],
                 f"--report ./made/../incast.toml: {replaced}"),
                (["--trace", "link.toml"], f"--trace link.toml: {replaced}"),
                (["--pcap", "s0:0=hard.toml"], f"--pcap hard.toml: {replaced}"),
                (["--out", "incast.toml"], f"--out incast.toml: {replaced}"),
                (["--report", "new.html", "--trace", "made/../new.html"],
                 "--trace made/../new.html: --report writes there too; name another file"),
                (["--pcap", "s0:0=a", "--pcap", "s0:1=./a"],
                 "--pcap ./a: --pcap writes there too; name another file"),
                (["--report", "made"], "--report made: it is a folder; name a file")]:
            with self.subTest(arguments=arguments):
                done = self.sim("incast.toml", *arguments, status=2)
                self.assertEqual(done.stderr, f"verbena sim: {message}\n")
                self.assertEqual(done.stdout, "")
        with open(self.path("incast.toml")) as file:
            self.assertEqual(file.read(), INCAST)
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ["hard.toml", "incast.toml", "link.toml", "made"])
        self.sim("-q", "incast.toml", "--report", "/dev/null", "--trace", "/dev/null")

    def test_nobody_takes_what_it_prints(self):
        for arguments in (["sim", "incast.toml"], ["sim", "--json", "incast.toml"], ["--help"],
                          ["--version"], ["explain", "ENOMEM"], ["fabric", "lint", "incast.toml"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run([VERBENA, *arguments], cwd=self.folder, stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr),
                                 (1, "verbena: cannot write the output: No space left on device\n"))

    def test_a_key_of_very_many_parts(self):
        self.scenario("deep.toml", "[scenario]\n" + "a." * 200_000 + "a = 1\n")
        done = self.sim("deep.toml", status=2)
        self.assertEqual(done.stderr, "verbena sim: deep.toml:2: a key of more than 16 parts\n")

    def test_interrupted(self):
        self.scenario("endless.toml", ENDLESS)
        run = subprocess.Popen([VERBENA, "sim", "endless.toml", "--trace", "t.txt"],
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(run.kill)
        # It runs, and obeys, once the trace has grown.
        deadline = time.monotonic() + 60
        part = self.path(f"t.txt.{run.pid}.part")
        while not (os.path.exists(part) and os.path.getsize(part) > 100_000):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, err), (130, ""))
        self.assertIn("interrupted: the figures are those until then", out)
        self.assertRegex(out, r"(?m)^all +1 +0 ")
        self.assertGreater(os.path.getsize(self.path("t.txt")), 100_000)
        self.assertFalse(os.path.exists(part))


class Files(Sim):
    def test_csv(self):
        self.sim("incast.toml", "-q", "--out", "out")
        summary = json.loads(self.read("out/summary.json"))
        flows = self.rows("out/flows.csv")
        self.assertEqual([row["source"] for row in flows], ["h0", "h1", "h2"])
        for row in flows:
            self.assertEqual((row["destination"], row["bytes"], row["received_bytes"],
                              row["status"]), ("h3", "100000", "100000", "done"))
            self.assertAlmostEqual(float(row["end_us"]) - float(row["start_us"]),
                                   float(row["fct_us"]), places=5)
        self.assertAlmostEqual(max(float(row["fct_us"]) for row in flows),
                               summary["all"]["fct_p99_us"], places=3)
        ports = self.rows("out/ports.csv")
        into = [row for row in ports if row["port"] == "s0:3" and row["priority"] == "3"]
        self.assertEqual(len(into), 1)
        self.assertEqual(int(into[0]["queue_max_bytes"]), summary["values"]["queue_max_bytes"])
        series = self.rows("out/series.csv")
        self.assertEqual(float(series[0]["time_us"]), 10)
        self.assertEqual(float(series[1]["time_us"]), 20)
        self.assertGreater(int(series[0]["queue_bytes s0:3 -> h3"]), 0)
        for before, after in zip(series, series[1:]):
            self.assertLessEqual(int(before["received_bytes"]), int(after["received_bytes"]))

    def test_the_scenario_again(self):
        self.sim("incast.toml", "-q", "--seed", "7", "--set", "workload.0.bytes=50KB", "--out",
                 "out")
        text = self.read("out/scenario.toml")
        self.assertEqual(text, "# verbena sim incast.toml --seed 7 --set 'workload.0.bytes=50KB'\n"
                         + INCAST)

    def test_trace(self):
        self.sim("incast.toml", "-q", "--trace", "t.txt")
        lines = self.read("t.txt").splitlines()
        self.assertRegex(lines[0], r"^0\.000 h0:0 -> s0 sent RC_WRITE_FIRST qp 0x\w{6} psn \d+ ")
        times = [float(line.split()[0]) for line in lines]
        self.assertEqual(times, sorted(times))
        sent = sum(" sent " in line for line in lines)
        self.assertEqual(sent, sum(" received " in line for line in lines))

    def test_report(self):
        self.scenario("incast.toml", INCAST.replace("three", "<three> & more"))
        self.sim("incast.toml", "-q", "--report", "r.html")
        page = self.read("r.html")
        self.assertIn("&lt;three&gt; &amp; more", page)
        self.assertNotIn("<three>", page)
        for outside in ("http:", "https:", "src=", "href=", "@import", "url("):
            self.assertNotIn(outside, page.replace("http://www.w3.org/2000/svg", ""))
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
        self.assertEqual([node["name"] for node in data["nodes"]], ["h0", "h1", "h2", "h3", "s0"])
        self.assertEqual(len(data["ports"]), 2 * len(data["links"]))
        self.assertEqual(len(data["time_us"]), len(data["goodput"]))
        self.assertEqual(data["ports"][data["queues"][0]["port"]]["name"], "s0:3 -> h3")
        self.assertEqual(data["distributions"][0]["fct_us"][-1][1], 1)


class Captures(Sim):
    def setUp(self):
        super().setUp()
        if shutil.which("tshark") is None:
            self.skipTest("tshark is not installed")

    def test_tshark_decodes_every_frame(self):
        self.sim("incast.toml", "-q", "--set", "switch.group.3.static=20KB", "--set",
                 "switch.ecn.min=5KB", "--set", "switch.ecn.max=20KB", "--pcap", "s0:0=s.pcapng",
                 "--pcap", "h3=h.pcapng", "--set", "expect={}")
        for name in ("s.pcapng", "h.pcapng"):
            self.assertEqual(self.tshark("-r", name, "-Y", "_ws.malformed or "
                                         "_ws.expert.severity >= 6291456"), [])  # warnings
        sent = self.tshark("-r", "s.pcapng", "-Y", "macc", "-T", "fields", "-e", "macc.opcode",
                           "-e", "eth.dst")
        self.assertTrue(sent)
        for line in sent:
            self.assertEqual(line.split()[1], "01:80:c2:00:00:01")
        opcodes = self.tshark("-r", "h.pcapng", "-T", "fields", "-e", "infiniband.bth.opcode")
        self.assertIn("6", opcodes)     # RC RDMA WRITE first
        self.assertIn("17", opcodes)    # RC acknowledge
        marked = self.tshark("-r", "h.pcapng", "-Y", "ip.dsfield.ecn == 3 and ip.dst == 10.0.0.4")
        self.assertTrue(marked)
        ways = set(self.tshark("-r", "h.pcapng", "-T", "fields", "-e",
                               "frame.packet_flags_direction"))
        self.assertEqual(ways, {"0x00000001", "0x00000002"})


    def test_telemetry_is_a_trailer(self):
        self.sim("incast.toml", "-q", "--set", "host.congestion=hpcc", "--pcap", "s0:3=s.pcapng",
                 "--set", "expect={}")
        self.assertEqual(self.tshark("-r", "s.pcapng", "-Y", "_ws.malformed or "
                                     "_ws.expert.severity >= 6291456"), [])
        # To the receiver: one hop, of a port at 100 Gb/s (code 5). And back: the same 10 bytes.
        out, back = (self.tshark("-r", "s.pcapng", "-Y", f"infiniband and ip.dst {which} 10.0.0.4",
                                 "-T", "fields", "-e", "eth.trailer") for which in ("==", "!="))
        self.assertEqual(len(out), 3 * 98)
        self.assertTrue(back)
        for trailer in out + back:
            self.assertRegex(trailer.replace(":", ""), "^1[0-9a-f]{3}5[0-9a-f]{15}$")


class Sweeps(Sim):
    def test_grid(self):
        done = self.sim("incast.toml", "--sweep", "workload.0.bytes=50KB,100KB", "--sweep",
                        "scenario.seed=1,2", "--out", "out", "--report", "r.html", "--jobs", "2")
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^workload\.0\.bytes +scenario\.seed +expected +done +FCT p50 ")
        self.assertEqual([line.split()[:4] for line in lines[1:5]],
                         [["50KB", "1", "yes", "3"], ["50KB", "2", "yes", "3"],
                          ["100KB", "1", "yes", "3"], ["100KB", "2", "yes", "3"]])
        rows = self.rows("out/sweep.csv")
        self.assertEqual([row["run"] for row in rows], ["1", "2", "3", "4"])
        # Each is the run that it says it is.
        alone = self.summary("--set", "workload.0.bytes=50KB", "--seed", "2")
        self.assertEqual(rows[1]["trace"], alone["trace"])
        self.assertEqual(json.loads(self.read("out/002/summary.json"))["trace"], alone["trace"])
        page = self.read("r.html")
        data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S).group(1))
        self.assertEqual([run["name"] for run in data["runs"]],
                         ["bytes=50KB, seed=1", "bytes=50KB, seed=2", "bytes=100KB, seed=1",
                          "bytes=100KB, seed=2"])

    def test_a_name_that_no_value_has(self):
        self.scenario("names.toml", INCAST.replace("flows_done = 3", "flows_don = 3"))
        for more in ([], ["--sweep", "scenario.seed=1,2"]):
            done = self.sim("names.toml", *more, status=2)
            self.assertEqual(done.stdout, "")
            self.assertIn("expect.flows_don: no value has this name; did you mean flows_done?",
                          done.stderr)

    def test_any_unmet_expectation(self):
        done = self.sim("incast.toml", "--sweep", "expect.flows_done=3,4", status=1)
        self.assertRegex(done.stdout, r"(?m)^3 +yes ")
        self.assertRegex(done.stdout, r"(?m)^4 +no ")
        self.assertIn("flows_done=4: ", done.stdout)

    def test_a_mistake_before_anything_runs(self):
        done = self.sim("incast.toml", "--sweep", "workload.0.bytes=1KB,1furlong", status=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("1furlong", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
