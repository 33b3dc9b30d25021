"""Programs of plain sockets turned into RDMA programs by `verbena run --sockets`: Debian's
unmodified librspreload, which calls our rsockets, with our accept4 and epoll behind it: iperf3,
curl against a Python HTTP server, redis. None of the servers listens on a TCP port meanwhile, so
what is answered came by our road."""

import hashlib
import os
import re
import shutil
import tempfile
import time

import ecosystem
import harness
from harness import NEAR, VERBENA, environment, finish, free_port, listening, run

PRELOAD = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"


RUN = [VERBENA, "run", "--sockets", "--"]


@ecosystem.needs(PRELOAD)
class Preload(ecosystem.Ecosystem):
    ROADS = ecosystem.ROADS if ecosystem.LONG else {"local": {}}

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="verbena-preload-")
        self.addCleanup(shutil.rmtree, self.folder)

    def answered(self, command, port, env, seconds=20):
        """The outcome of `command` once its server, no server of TCP, answers it."""
        deadline = time.time() + seconds
        while True:
            outcome = run([*RUN, *command], 60, env)
            self.assertFalse(listening(int(port)), "a server of plain TCP")
            if outcome.code == 0 or time.time() > deadline:
                return outcome

    def on_each_road(self, check):
        for road, variables in self.ROADS.items():
            with self.subTest(road=road):
                check(environment(**variables))

    @ecosystem.needs("iperf3")
    def test_iperf3(self):
        self.on_each_road(self.iperf3)

    def iperf3(self, env):
        port = str(free_port())
        server = self.start([*RUN, "iperf3", "-s", "-1", "-p", port], env=env)
        amount = 256 if ecosystem.LONG else 32  # MiB
        client = self.answered(["iperf3", "-f", "M", "-c", NEAR, "-p", port, "-n", f"{amount}M"],
                               port, env)
        served = finish(server, 20)
        self.assert_ok(client, served)
        sent, received = (float(re.search(rf"([0-9.]+) MBytes .* {end}\n", client.output)[1])
                          for end in ("sender", "receiver"))
        self.assertEqual(sent, amount)
        self.assertGreater(received, amount / 2)  # it counts until the client says it is done

    @ecosystem.needs("curl")
    def test_curl_from_a_python_http_server(self):
        self.on_each_road(self.curl)

    def curl(self, env):
        content = os.urandom((64 << 20 if ecosystem.LONG else 5_000_000) + 1)
        with open(os.path.join(self.folder, "file"), "wb") as file:
            file.write(content)
        port = str(free_port())
        server = self.start([*RUN, "/usr/bin/python3", "-m", "http.server", port, "--bind", NEAR,
                             "--directory", self.folder], env=env)
        got = os.path.join(self.folder, "got")
        self.assert_ok(self.answered(["curl", "-sS", "-o", got, f"http://{NEAR}:{port}/file"],
                                     port, env))
        with open(got, "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(),
                             hashlib.sha256(content).hexdigest())
        missing = run([*RUN, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                       f"http://{NEAR}:{port}/absent"], 30, env)
        self.assertEqual((missing.code, missing.output), (0, "404"))
        server.terminate()
        server.wait(10)

    WAITS = """
import os, select, socket, sys, threading
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
assert os.readlink(f"/proc/self/fd/{datagrams.fileno()}").startswith("socket:")
epoll, heard = select.epoll(), []
waiting = threading.Thread(target=lambda: heard.extend(epoll.poll(20)))
waiting.start()
listener = socket.create_server(("10.99.0.1", int(sys.argv[1])))
assert os.readlink(f"/proc/self/fd/{listener.fileno()}") == "/dev/null"
epoll.register(listener, select.EPOLLIN)
waiting.join()
assert heard == [(listener.fileno(), select.EPOLLIN)], heard
peer, _ = listener.accept()
epoll.register(peer, select.EPOLLIN | select.EPOLLONESHOT)
assert epoll.poll(20) == [(peer.fileno(), select.EPOLLIN)]
assert peer.recv(9) == b"something" and epoll.poll(0) == []
epoll.unregister(peer)
peer.close()
print("heard")
"""
    # By epoll_pwait2, which Python has no name for; its time is a timespec, NULL: for ever.
    WAITS_2 = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _pack_, _fields_ = 1, [("events", ctypes.c_uint32), ("data", ctypes.c_uint64)]
class Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]
READABLE, ADD = 1, 1
def register(fd):
    event = Event(READABLE, fd)
    assert libc.epoll_ctl(epoll, ADD, fd, ctypes.byref(event)) == 0
def wait(time):
    events = (Event * 4)()
    count = libc.epoll_pwait2(epoll, events, 4, time and ctypes.byref(time), None)
    return [each.data for each in events[:count]] if count >= 0 else ctypes.get_errno()
epoll = libc.epoll_create1(0)
assert wait(Time(0, 1)) == [] and wait(Time(0, -1)) == wait(Time(-1, 0)) == 22
listener = socket.create_server(("10.99.0.1", int(sys.argv[1])))
register(listener.fileno())
assert wait(Time(20, 0)) == [listener.fileno()]
peer, _ = listener.accept()
register(peer.fileno())
assert wait(None) == [peer.fileno()]
assert peer.recv(9) == b"something"
peer.close()
print("heard")
"""
    ASKS = """
import socket, sys
with socket.create_connection(("10.99.0.1", int(sys.argv[1]))) as peer:
    peer.send(b"something")
    assert peer.recv(1) == b""
"""

    def test_who_sleeps_in_epoll_hears_of_what_is_added(self):
        """And datagram sockets stay the kernel's."""
        self.waits(self.WAITS)

    def test_epoll_pwait2(self):
        self.waits(self.WAITS_2)

    def waits(self, program):
        port = str(free_port())
        server = self.start([*RUN, "/usr/bin/python3", "-c", program, port], env=environment())
        asked = self.answered(["/usr/bin/python3", "-c", self.ASKS, port], port, environment())
        served = finish(server, 20)
        self.assert_ok(asked, served)
        self.assertEqual((served.code, served.output), (0, "heard\n"))

    @ecosystem.needs("redis-server", "redis-cli")
    def test_redis(self):
        self.on_each_road(self.redis)

    def redis(self, env):
        port = str(free_port())
        server = self.start([*RUN, "redis-server", "--port", port, "--bind", NEAR, "--save", "",
                             "--appendonly", "no", "--protected-mode", "no",
                             "--dir", self.folder], env=env)
        ask = ["redis-cli", "-h", NEAR, "-p", port]
        pong = self.answered([*ask, "ping"], port, env)
        self.assertEqual((pong.code, pong.output), (0, "PONG\n"))
        for i in range(20 if ecosystem.LONG else 3):
            value = hashlib.sha512(str(i).encode()).hexdigest() * 300
            self.assertEqual(run([*RUN, *ask, "set", f"key{i}", value], 30, env).output, "OK\n")
            self.assertEqual(run([*RUN, *ask, "get", f"key{i}"], 30, env).output, value + "\n")
        self.assertEqual(run([*RUN, *ask, "incrby", "counter", "41"], 30, env).output, "41\n")
        self.assertEqual(run([*RUN, *ask, "incr", "counter"], 30, env).output, "42\n")
        self.assertIsNone(server.poll())
        server.terminate()
        self.assertEqual(server.wait(10), 0)


if __name__ == "__main__":
    harness.main()
