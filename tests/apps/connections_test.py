"""Connections in every state, and what is left of them when one of the three that make them (the
listener, the client, the broker) is killed; signals in every call that waits; crowds of
connections, and thousands one after another, that leave nothing behind."""

import os
import select
import signal
import subprocess
import time

import harness
from ecosystem import ROADS, long_form
from harness import BUILD, NEAR, AppTest, brokers, environment, free_port, run

CROWD = os.path.join(BUILD, "bin", "cm_crowd")
STEPS = os.path.join(BUILD, "bin", "cm_steps")
SECONDS = 20    # that anything may take: far below the minute of a REQ or DREQ without an answer
AT_ONCE = 3     # that a goodbye may take: below the 4.3 s after which a datagram is repeated


class Steps:
    """A program of rdma_cm that goes one step when it is told to (cm_steps.cc)."""

    def __init__(self, test, **variables):  # of its environment
        self.process = subprocess.Popen([STEPS], env=environment(**variables),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True)
        self.waiting = b""
        self.test = test
        test.addCleanup(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def tell(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def line(self, seconds=SECONDS):
        """The next line that it says; None: none came in time, or it ended."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self.waiting:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 4096)
            if not more:
                return None
            self.waiting += more
        line, self.waiting = self.waiting.split(b"\n", 1)
        return line.decode()

    def answer(self, seconds=SECONDS):
        """What the command said in the end."""
        line = self.line(seconds)
        while line in ("blocking", "handled"):
            line = self.line(seconds)
        return line

    def ask(self, command, seconds=SECONDS):
        self.tell(command)
        return self.answer(seconds)

    def must(self, *commands):
        for command in commands:
            self.test.assertEqual(self.ask(command), "ok", command)

    def event(self, seconds=SECONDS):
        return self.ask("event", seconds)

    def state(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def wait_in(self, command):
        """Returns when it sleeps inside the call."""
        self.tell(command)
        self.test.assertEqual(self.line(), "blocking", command)
        self.reach("S")

    def reach(self, state):
        deadline = time.monotonic() + SECONDS
        while self.state() != state:
            self.test.assertLess(time.monotonic(), deadline, f"not in state {state}")
            time.sleep(0.001)

    def signal(self, number):
        os.kill(self.process.pid, number)

    def stop(self):
        self.signal(signal.SIGSTOP)
        self.reach("T")

    def go_on(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()


def serving_broker():
    """Of broker and standby the one that serves: the other's parent."""
    pids = brokers()
    parents = {}
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            parents[pid] = int(file.read().rsplit(")", 1)[1].split()[1])
    return next(pid for pid in pids if parents[pid] not in pids)


def await_standby():
    deadline = time.monotonic() + SECONDS
    while len(brokers()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)


def kill_broker():
    await_standby()
    os.kill(serving_broker(), signal.SIGKILL)


def kill_broker_and_standby():
    await_standby()
    pids = brokers()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


class Pair(AppTest):
    """A listener and a client, brought to a state of their connection."""

    def setUp(self):
        self.port = free_port()

    def listener(self):
        server = Steps(self)
        server.must("channel", f"listen {NEAR} {self.port}")
        return server

    def client(self):
        client = Steps(self)
        client.must("channel", f"resolve {NEAR} {self.port}")
        return client

    def reach(self, state):
        """(listener, client); in the two states in which a message has no answer the listener
        is stopped."""
        server, client = self.listener(), self.client()
        if state == "REQ sent":
            server.stop()
        client.must("connect")
        if state == "REQ sent":
            return server, client
        self.assertEqual(server.event(), "CONNECT_REQUEST 0")
        if state == "REQ received":
            return server, client
        server.must("accept")
        client.must("pending")
        if state == "REP sent":
            return server, client
        self.assertEqual(client.event(), "ESTABLISHED 0")
        self.assertEqual(server.event(), "ESTABLISHED 0")
        if state == "DREQ sent":
            server.stop()
        if state in ("established", ):
            return server, client
        client.must("disconnect")
        if state == "DREQ sent":
            return server, client
        self.assertEqual(server.event(), "DISCONNECTED 0")
        if state == "DREQ received":
            return server, client
        server.must("disconnect")
        self.assertEqual(client.event(), "DISCONNECTED 0")
        self.assertEqual(state, "timewait")
        return server, client

    def whole(self, server, client):
        """From request to end."""
        client.must("connect")
        self.assertEqual(server.event(), "CONNECT_REQUEST 0")
        server.must("accept")
        self.assertEqual(client.event(), "ESTABLISHED 0")
        self.assertEqual(server.event(), "ESTABLISHED 0")
        client.must("disconnect")
        self.assertEqual(server.event(), "DISCONNECTED 0")
        server.must("disconnect")
        self.assertEqual(client.event(), "DISCONNECTED 0")


class Loopback(Pair):
    def test_without_a_device_of_its_own(self):
        """127.0.0.1 where no device has it: another one stands for it, as in Linux."""
        for road, env in ROADS.items():
            with self.subTest(road=road):
                self.port = free_port()
                server, client = [Steps(self, VERBENA_DEVICES="only=near0", **env)
                                  for _ in range(2)]
                server.must("channel", f"listen 127.0.0.1 {self.port}")
                client.must("channel", f"resolve 127.0.0.1 {self.port}")
                self.whole(server, client)


class Killed(Pair):
    # What the listener hears when its client is killed: the reason of a REJ is 28 (consumer). A
    # request that has not been answered is told and its end is not, as on Linux.
    OF_CLIENT = {
        "REQ sent": ["CONNECT_REQUEST 0"],
        "REQ received": [],
        "REP sent": ["REJECTED 28"],
        "established": ["DISCONNECTED 0"],
        "DREQ sent": ["DISCONNECTED 0"],
        "DREQ received": [],
        "timewait": ["TIMEWAIT_EXIT 0"],
    }
    # What the client hears when the listener is killed. A REQ that the listener never read is
    # repeated after 4.3 s, and then nobody has the port (reason 8). A REP that the client takes
    # from its queue after the goodbye cannot be answered any more; before it, the connection
    # stands for that moment.
    OF_LISTENER = {
        "REQ sent": ["REJECTED 8"],
        "REQ received": ["REJECTED 28"],
        "REP sent": ["CONNECT_ERROR -22", "REJECTED 4"],
        "established": ["DISCONNECTED 0"],
        "DREQ sent": ["DISCONNECTED 0"],
        "DREQ received": ["DISCONNECTED 0"],
        "timewait": ["TIMEWAIT_EXIT 0"],
    }

    def test_client(self):
        for state, events in self.OF_CLIENT.items():
            with self.subTest(state=state):
                self.port = free_port()
                server, client = self.reach(state)
                client.kill()
                if state in ("REQ sent", "DREQ sent"):
                    server.go_on()
                for event in events:
                    self.assertEqual(server.event(AT_ONCE), event)
                if state == "DREQ received":
                    server.must("disconnect")
                    self.assertEqual(server.event(), "TIMEWAIT_EXIT 0")
                if state != "REQ sent":
                    server.must("destroy")
                self.whole(server, self.client())

    def test_listener(self):
        for state, events in self.OF_LISTENER.items():
            with self.subTest(state=state):
                self.port = free_port()
                server, client = self.reach(state)
                server.kill()
                first = client.event(SECONDS if state == "REQ sent" else AT_ONCE)
                if state == "REP sent" and first == "ESTABLISHED 0":
                    events = [first, "DISCONNECTED 0"]
                self.assertEqual([first, *(client.event(AT_ONCE) for _ in events[1:])], events)
                client.must("destroy")
                successor = self.listener()     # the port is free at once
                client.must(f"resolve {NEAR} {self.port}")
                self.whole(successor, client)

    def test_broker(self):
        """Its standby goes on: nobody hears of it, a datagram that was lost is sent again."""
        self.without_anybody_hearing_of(kill_broker)

    def test_broker_and_standby(self):
        """The same when the two processes have to start another broker."""
        self.without_anybody_hearing_of(kill_broker_and_standby)

    def without_anybody_hearing_of(self, kill):
        for state in self.OF_CLIENT:
            with self.subTest(state=state):
                self.port = free_port()
                server, client = self.reach(state)
                kill()
                if state in ("REQ sent", "DREQ sent"):
                    server.go_on()
                self.finish(state, server, client)
                server.must("destroy")
                client.must("destroy", f"resolve {NEAR} {self.port}")
                self.whole(server, client)

    def finish(self, state, server, client):
        """What is left of the connection's life after that state."""
        states = list(self.OF_CLIENT)
        done = states.index(state)
        if done < states.index("REQ received"):
            self.assertEqual(server.event(), "CONNECT_REQUEST 0")
        if done < states.index("REP sent"):
            server.must("accept")
        if done < states.index("established"):
            self.assertEqual(client.event(), "ESTABLISHED 0")
            self.assertEqual(server.event(), "ESTABLISHED 0")
        if done < states.index("DREQ sent"):
            client.must("disconnect")
        if done < states.index("DREQ received"):
            self.assertEqual(server.event(), "DISCONNECTED 0")
        if done < states.index("timewait"):
            server.must("disconnect")
            self.assertEqual(client.event(), "DISCONNECTED 0")
        self.assertEqual(client.event(), "TIMEWAIT_EXIT 0")
        self.assertEqual(server.event(), "TIMEWAIT_EXIT 0")


class Signals(Pair):
    """In every call that waits: a signal without a handler ends the program; one with a handler
    ends the call with EINTR, or with SA_RESTART leaves it waiting, as a system call would."""

    def synchronous(self, command):
        """A program that is about to wait in `command`, and what would end the wait."""
        server = Steps(self)
        server.must(f"listen {NEAR} {self.port}")
        if command == "get_request":
            return server, lambda: self.client().must("connect")
        client = Steps(self)
        client.must(f"resolve {NEAR} {self.port}")
        if command == "connect":    # the request lies with its listener
            return client, lambda: server.must("get_request") or server.wait_in("accept")
        client.wait_in("connect")
        server.must("get_request")
        if command == "accept":     # the client does not take the REP
            client.stop()
            return server, client.go_on
        server.must("accept")
        self.assertEqual(client.answer(), "ok")
        server.stop()
        return client, lambda: server.go_on() or server.must("disconnect")

    def with_channel(self, command):
        server, client = self.reach("established")

        def end():
            client.must("disconnect")
        if command == "cq_event":
            return server, None
        return server, end

    def stream(self, command):
        server = Steps(self)
        server.must(f"rlisten {NEAR} {self.port}")
        client = Steps(self)
        if command == "rconnect":   # the request lies with its listener
            return client, lambda: server.must("raccept")
        if command == "raccept":
            return server, lambda: client.tell(f"rconnect {NEAR} {self.port}")
        client.tell(f"rconnect {NEAR} {self.port}")
        server.must("raccept")
        self.assertEqual(client.answer(), "ok")
        return server, client.kill

    def waiters(self):
        for command in ("get_request", "connect", "accept", "disconnect"):
            yield command, self.synchronous
        for command in ("event", "cq_event"):
            yield command, self.with_channel
        for command in ("rconnect", "raccept", "rrecv", "rpoll"):
            yield command, self.stream

    def wait_in(self, program, command):
        to = f" {NEAR} {self.port}" if command == "rconnect" else ""
        program.wait_in(command + to)

    def test_without_handler(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for command, prepare in self.waiters():
                with self.subTest(command=command, signal=number.name):
                    self.port = free_port()
                    program, _ = prepare(command)
                    self.wait_in(program, command)
                    program.signal(number)
                    self.assertEqual(program.process.wait(SECONDS), -number)

    def test_interrupting_handler(self):
        for command, prepare in self.waiters():
            with self.subTest(command=command):
                self.port = free_port()
                program, _ = prepare(command)
                program.must("handler interrupt")
                self.wait_in(program, command)
                answer = None
                while answer is None and program.process.poll() is None:
                    program.signal(signal.SIGUSR1)  # the first may have come before the wait
                    answer = program.answer(0.2)
                self.assertEqual(answer, "errno EINTR")

    def test_restarting_handler(self):
        for command, prepare in self.waiters():
            with self.subTest(command=command):
                self.port = free_port()
                program, end = prepare(command)
                program.must("handler restart")
                self.wait_in(program, command)
                if command == "rpoll":  # nor does poll(2) ever go on
                    program.signal(signal.SIGUSR1)
                    self.assertEqual(program.answer(), "errno EINTR")
                    continue
                for _ in range(3):
                    program.signal(signal.SIGUSR1)
                    self.assertEqual(program.line(), "handled")
                program.reach("S")
                if end is None:
                    continue
                end()
                self.assertIn(program.answer(), ("ok", "DISCONNECTED 0"))


def left_over():
    """What all processes together could leave behind: shared memory with a name, slots and ports
    (which go with the last broker)."""
    harness.wait_for_no_broker()
    return {"brokers": brokers(), "shared memory": sorted(os.listdir("/dev/shm")),
            "sockets": run(["ss", "-Haun"]).output.split("\n")}


class Crowds(AppTest):
    def crowd(self, rounds, depth, seconds=300, **variables):
        before = left_over()
        outcome = run([CROWD, NEAR, str(rounds), str(depth)], seconds, environment(**variables))
        self.assert_ok(outcome)
        self.assertIn(f"{rounds * depth} connections, {depth} at once, nothing left",
                      outcome.output)
        self.assertEqual(left_over(), before)

    def test_at_once(self):
        """1,100 stand at the same time, as with ib_write_bw -R -q 1100."""
        self.crowd(2, 1100)
        self.crowd(1, 1100, VERBENA_LOCAL="off")

    def test_one_after_another(self):
        self.crowd(625, 16)

    @long_form("half a minute of nothing but connections")
    def test_more_than_a_process_has_ids_for(self):
        """In all: 65,536 connections may be at once, those in timewait among them."""
        self.crowd(5000, 16)
        self.crowd(10000, 1)


if __name__ == "__main__":
    harness.main()
