"""Debian's unmodified rdma_cm programs over our librdmacm: connections, datagram services,
multicast, synchronous endpoints, and perftest and qperf with connections made by rdma_cm. Data is
checked where the program does."""

import os
import re
import shutil
import signal
import tempfile
import time
import unittest

import harness
import pyverbs_test
from ecosystem import LONG
from harness import (FAR, NEAR, NEAR6, VERBENA, AppTest, FarSide, environment, finish, free_port,
                     run, start, wait_listening)

ROADS = {"local": {}, "wire": {"VERBENA_LOCAL": "off"}}


class Cm(AppTest):
    """Servers of rdma_cm listen on no TCP port. A client that is refused because nobody listens yet
    may have made some of its connections already, so both start again, further apart."""

    REFUSED = r"error:? -?8\b|event bl blka 8|REJECTED|UNREACHABLE|Connection refused"

    def cm_pair(self, server, client, seconds=30, server_prefix=(), client_prefix=(), **env):
        env = environment(**env)
        for head_start in (0.05, 0.2, 0.8, 3.2):
            serving = start(server, env, server_prefix)
            time.sleep(head_start)
            asking = run(client, seconds, env, client_prefix)
            if asking.code == 0 or not re.search(self.REFUSED, asking.output):
                break
            serving.kill()
            finish(serving, 5)
        served = finish(serving, 15)
        self.assert_ok(served, asking)
        return served, asking


class Rping(Cm):
    def ping(self, address, bind=None, *options, **env):
        common = ["-v", "-V", "-C", "10", "-p", str(free_port()), *options]
        server = ["rping", "-s", *(["-a", bind] if bind else []), *common]
        served, asked = self.cm_pair(server, ["rping", "-c", "-a", address, *common], **env)
        for i in range(10):
            self.assertIn(f"server ping data: rdma-ping-{i}: ", served.output)
            self.assertRegex(asked.output, rf"(?m)^ping data: rdma-ping-{i}: ")

    def test_both_roads(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                self.ping(NEAR, NEAR, **env)

    def test_listener_on_any_address(self):
        self.ping(NEAR)

    def test_loopback(self):
        self.ping("127.0.0.1", "127.0.0.1")

    def test_ipv6(self):
        self.ping(NEAR6, NEAR6)

    def test_large_messages(self):
        self.ping(NEAR, NEAR, "-S", "4000")

    def test_persistent_server(self):
        """One listener, clients one after the other: rping itself mixes up requests that come at
        the same moment. Each client is a new process with the slot of the one before."""
        port = str(free_port())
        server = start(["rping", "-s", "-P", "-a", NEAR, "-p", port], environment())
        try:
            time.sleep(0.5)
            for _ in range(6):
                self.assert_ok(run(["rping", "-c", "-a", NEAR, "-p", port, "-V", "-C", "20"], 20,
                                   environment()))
            self.assertIsNone(server.poll())
        finally:
            server.kill()
            finish(server, 5)

    def test_verbena_run(self):
        port = str(free_port())
        plain = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        command = [VERBENA, "run", "--", "rping", "-a", NEAR, "-p", port, "-V", "-C", "5"]
        server = start([*command, "-s"], plain)
        time.sleep(0.5)
        asked = run([*command, "-c"], 30, plain)
        self.assert_ok(finish(server, 10), asked)

    def test_nobody_listens(self):
        outcome = run(["rping", "-c", "-a", NEAR, "-p", str(free_port())], 20,
                      environment(VERBENA_LOG="explain"))
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", outcome.output)
        self.assertRegex(outcome.output, r"verbena: .*rejected the connection in state REQ_SENT: "
                                         r"REJ 8 \(invalid service ID: nothing listens")

    def test_no_way_there(self):
        outcome = run(["rping", "-c", "-a", "203.0.113.7"], 20, environment())
        self.assertNotEqual(outcome.code, 0)
        self.assertRegex(outcome.output, r"rdma_resolve_addr: Network is unreachable")


class Samples(Cm):
    def test_ucmatose(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                options = ["-p", str(free_port()), "-c", "20", "-C", "50", "-S", "4000"]
                outcomes = self.cm_pair(["ucmatose", *options],
                                        ["ucmatose", "-s", NEAR, *options], **env)
                for outcome in outcomes:
                    self.assertIn("data transfers complete", outcome.output)
                    self.assertIn("return status 0", outcome.output)

    def test_ucmatose_ipv6_with_options(self):
        options = ["-p", str(free_port()), "-c", "3", "-t", "32"]
        self.cm_pair(["ucmatose", "-b", NEAR6, *options], ["ucmatose", "-s", NEAR6, *options])

    def test_ucmatose_migrates_ids(self):
        options = ["-p", str(free_port()), "-c", "3", "-m"]
        self.cm_pair(["ucmatose", *options], ["ucmatose", "-s", NEAR, *options])

    def test_udaddy(self):
        for road, env in ROADS.items():
            with self.subTest(road=road):
                options = ["-c", "4", "-C", "20", "-S", "900"]
                outcomes = self.cm_pair(["udaddy", *options],
                                        ["udaddy", "-s", NEAR, *options], **env)
                for outcome in outcomes:
                    self.assertIn("return status 0", outcome.output)

    def test_rdma_client(self):
        for _ in range(5):
            port = str(free_port())
            self.cm_pair(["rdma_server", "-p", port], ["rdma_client", "-s", NEAR, "-p", port])

    def test_rdma_xclient(self):
        for kind in "rx":
            with self.subTest(kind=kind):
                options = ["-p", str(free_port()), "-c", kind]
                self.cm_pair(["rdma_xserver", *options], ["rdma_xclient", "-s", NEAR, *options])

    def test_mckey(self):
        """Both sides of a group; the receiver counts the messages."""
        for group, own in (("239.1.2.3", NEAR), ("ff15::1:3", NEAR6)):
            with self.subTest(group=group):
                common = ["mckey", "-m", group, "-b", own, "-C", "10"]
                receiver = start(common, environment())
                time.sleep(1)
                sender = run([*common, "-s"], 20, environment())
                self.assert_ok(finish(receiver, 20), sender)

    def test_cmtime(self):
        """Its server does not end by itself."""
        port = str(free_port())
        server = start(["cmtime", "-p", port], environment())
        try:
            time.sleep(0.5)
            outcome = run(["cmtime", "-s", NEAR, "-p", port, "-c", "50"], 60, environment())
            self.assert_ok(outcome)
            self.assertRegex(outcome.output, r"(?m)^connect\s+:")
        finally:
            server.send_signal(signal.SIGINT)
            finish(server, 2)


class Measurements(Cm):
    def test_perftest(self):
        for program, *options in [("ib_send_bw",), ("ib_write_bw", "-q", "4"), ("ib_read_lat",)]:
            with self.subTest(program=program, options=options):
                command = [program, "-R", "-n", "200", "-p", str(free_port()), *options]
                self.cm_pair(command, [*command, NEAR])

    def test_datagram_service_is_waited_for(self):
        """perftest's client looks the service up before its server has bound the port."""
        for _ in range(4):
            command = ["ib_send_lat", "-R", "-c", "UD", "-n", "200", "-p", str(free_port())]
            self.cm_pair(command, [*command, NEAR])

    def test_qperf(self):
        port = str(free_port())
        server = start(["qperf", "-lp", port], environment())
        try:
            wait_listening(int(port), server)
            for name in ["rc_bw", "rc_lat", "rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_write_lat",
                         "rc_compare_swap_mr"]:
                with self.subTest(test=name):
                    outcome = run(["qperf", "-lp", port, "-cm", "1", "-t", "1", NEAR, name], 30,
                                  environment())
                    self.assert_ok(outcome)
                    self.assertRegex(outcome.output, r"(bw|latency|msg_rate)\s*=\s*[\d.]+")
        finally:
            server.terminate()
            finish(server, 5)


class Killed(Cm):
    def test_the_peer_of_a_killed_client_is_told(self):
        """The broker says goodbye for a process that cannot (SIGKILL)."""
        port = str(free_port())
        server = start(["rping", "-s", "-a", NEAR, "-p", port], environment())
        time.sleep(0.5)
        client = start(["rping", "-c", "-a", NEAR, "-p", port], environment())
        time.sleep(1)
        client.kill()
        finish(client, 5)
        outcome = finish(server, 10)
        self.assertNotIn("ended by the test", outcome.output)
        self.assertIn("DISCONNECT EVENT", outcome.output)


class Rsockets(Cm):
    REFUSED = r"Connection refused"

    def verified(self, program):
        for mode in ("b", "n", "a"):
            for road, env in ROADS.items():
                with self.subTest(mode=mode, road=road):
                    command = [program, "-p", str(free_port()), "-T", mode, "-T", "v", "-S",
                               "70000", "-C", "200", "-I", "2"]
                    for outcome in self.cm_pair(command, [*command, "-s", NEAR], **env):
                        self.assertRegex(outcome.output, r"(?m)^custom\s+68k\s")

    def test_rstream_verifies_its_data(self):
        self.verified("rstream")

    def test_riostream_verifies_mapped_memory(self):
        self.verified("riostream")

    def test_riostream_at_many_sizes(self):
        """Large ones need more than one write, and more room than the peer's ring has."""
        sizes = ["all"] if LONG else ["64", "1048576"]
        for road, env in ROADS.items():
            for size in sizes:
                with self.subTest(road=road, size=size):
                    command = ["riostream", "-p", str(free_port()), "-T", "v", "-S", size]
                    if size != "all":
                        command += ["-C", "20", "-I", "2"]
                    line = r"^64_lat\s" if size == "all" else r"^custom\s.*\s20\s+2\s"
                    for outcome in self.cm_pair(command, [*command, "-s", NEAR], 300, **env):
                        self.assertRegex(outcome.output, "(?m)" + line)

    def test_rcopy(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = os.path.join(folder, "a"), os.path.join(folder, "b")
            data = os.urandom(3_000_001)
            with open(source, "wb") as file:
                file.write(data)
            port = str(free_port())
            server = start(["rcopy", "-p", port], environment())
            try:
                time.sleep(0.5)
                self.assert_ok(run(["rcopy", source, f"{NEAR}:{target}", "-p", port], 20,
                                   environment()))
                with open(target, "rb") as file:
                    self.assertEqual(file.read(), data)
            finally:
                server.kill()
                finish(server, 5)

    def pong(self, size, count, *modes, address=NEAR, **env):
        """Runs udpong; how many of its datagrams the server got. It serves for ever."""
        options = [word for mode in modes for word in ("-T", mode)]
        common = ["udpong", "-p", str(free_port()), "-S", str(size), "-C", str(count), *options]
        server = start([*common, "-b", address], environment(**env))
        try:
            outcome = run([*common, "-s", address], 30, environment(**env))
            self.assert_ok(outcome)
        finally:
            server.kill()
            finish(server, 5)
        line = re.search(r"(?m)^custom\s+\S+\s+(\d+)(k?)\s", outcome.output)
        self.assertIsNotNone(line, outcome.output)
        return int(line[1]) * (1000 if line[2] else 1)

    def test_udpong_sends_bursts(self):
        """Nothing holds the sender back: what the server is too slow for is lost, as with UDP, but
        not what its queues have room for. 1500 bytes are more than UD carries at this MTU."""
        for road, env in ROADS.items():
            for mode in ("b", "n", "a"):
                for size, room in ((16, 500), (500, 500), (1500, 100)):
                    with self.subTest(road=road, mode=mode, size=size):
                        got = self.pong(size, 900, mode, **env)
                        self.assertGreaterEqual(got, room)
                        self.assertLessEqual(got, 900)

    def test_udpong_echoes(self):
        """Few rounds: udpong sends again after 1 ms, and never drops the echoes that it has then
        too many."""
        for road, env in ROADS.items():
            for size in (16, 500, 1500):
                with self.subTest(road=road, size=size):
                    self.assertEqual(self.pong(size, 10, "b", "e", **env), 20)

    def test_udpong_over_loopback(self):
        """Also where no device has the address: another one stands for it, as for streams."""
        for road, env in ROADS.items():
            for devices in ("", "only=near0"):
                with self.subTest(road=road, devices=devices):
                    more = {"VERBENA_DEVICES": devices} if devices else {}
                    self.assertEqual(self.pong(500, 10, "b", "e", address="127.0.0.1", **env,
                                               **more), 20)

    def test_a_dead_peer_ends_the_stream(self):
        port = str(free_port())
        server = start(["rstream", "-p", port], environment())
        time.sleep(0.5)
        client = start(["rstream", "-p", port, "-s", NEAR, "-S", "64", "-I", "100000000"],
                       environment())
        time.sleep(1)
        self.assertIsNone(client.poll())
        client.kill()
        finish(client, 5)
        self.assertIn("Broken pipe", finish(server, 3).output)  # then it waits for another client

    PRELOADED = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
address = (2).to_bytes(2, "little") + int(sys.argv[2]).to_bytes(2, "big") + bytes([10, 99, 0, 1])
address += bytes(8)
fd = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
data = bytes(range(256)) * 1000
buffer = ctypes.create_string_buffer(len(data))
def receive(fd):
    got = 0
    while got < len(data):
        part = libc.recv(fd, ctypes.byref(buffer, got), len(data) - got, 0)
        assert part > 0, (part, ctypes.get_errno())
        got += part
if sys.argv[1] == "server":
    assert libc.bind(fd, address, 16) == 0 and libc.listen(fd, 1) == 0
    peer = libc.accept(fd, None, None)
    receive(peer)
    assert libc.send(peer, buffer, len(data), 0) == len(data)
    assert libc.recv(peer, buffer, 1, 0) == 0
else:
    assert libc.connect(fd, address, 16) == 0, "Connection refused"
    assert libc.send(fd, data, len(data), 0) == len(data)
    receive(fd)
    assert buffer.raw == data
    libc.close(fd)
"""

    def test_sockets_turned_into_rsockets(self):
        """librspreload: a program of sockets, here libc's calls by ctypes."""
        preload = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
        if not os.path.exists(preload):
            self.skipTest("librspreload is not installed")
        command = ["env", f"LD_PRELOAD={preload}", "/usr/bin/python3", "-c", self.PRELOADED]
        port = str(free_port())
        self.cm_pair([*command, "server", port], [*command, "client", port])


class RdmaCoreTests(Cm):
    def test_rdmacm_suite(self):
        """rdma-core's own tests of rdma_cm; they want to see the device's network interface."""
        folder = tempfile.mkdtemp(prefix="verbena-rdma-core-")
        self.addCleanup(shutil.rmtree, folder)
        pyverbs_test.unpack(folder)
        plain = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
        outcome = run([VERBENA, "run", "--", "/usr/bin/python3",
                       os.path.join(folder, "run_tests.py"), "-v", "--dev", "verbena0", "--gid",
                       "0", "-k", "tests.test_rdmacm."], 120,
                      {**plain, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore"})
        self.assert_ok(outcome)
        verdicts = dict(pyverbs_test.results(outcome.output))
        self.assertEqual(len(verdicts), 10, outcome.output)
        self.assertEqual(set(verdicts.values()), {"ok"}, outcome.output)


class TwoHosts(Cm):
    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()

    @classmethod
    def tearDownClass(cls):
        cls.far.close()

    def test_across_two_namespaces(self):
        port = str(free_port())
        common = ["-v", "-V", "-C", "10", "-p", port]
        served, _ = self.cm_pair(["rping", "-s", *common], ["rping", "-c", "-a", FAR, *common],
                                 server_prefix=self.far.prefix())
        self.assertIn("server ping data: rdma-ping-9: ", served.output)
        self.cm_pair(["udaddy"], ["udaddy", "-s", FAR],
                     server_prefix=self.far.prefix())


if __name__ == "__main__":
    harness.main()
