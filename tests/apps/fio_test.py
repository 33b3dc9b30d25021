"""fio's rdma engine, unmodified: WRITE, READ and SEND between two jobs whose buffers lie in files,
so that what arrived can be compared; fio's own verification of what was sent; its end by signals.
"""

import json
import os
import pathlib
import re
import signal
import tempfile

import harness
from ecosystem import ROADS, Ecosystem, long_form, needs
from harness import FAR, NEAR, FarSide, finish, free_port


def blocks(path, size):
    content = pathlib.Path(path).read_bytes()
    return [content[at:at + size] for at in range(0, len(content), size)]


class Jobs(Ecosystem):
    """A server is a job that reads, a client one that writes, whatever the verb."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="verbena-fio-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def buffers(self, name, length, byte=None):
        """A file of random bytes (or of one byte) that a job takes its buffers from."""
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(os.urandom(length) if byte is None else bytes([byte]) * length)
        return path

    def job(self, name, port, options, prefix=(), **variables):
        command = ["fio", "--output-format=json", "--verify_state_save=0", f"--name={name}",
                   "--ioengine=rdma", "--thread", f"--port={port}", *options]
        return self.start(command, prefix, **variables)

    def server(self, port, *options, prefix=(), **variables):
        """A job that listens already."""
        process = self.job("server", port, ["--rw=read", *options], prefix, **variables)
        self.says(process, "waiting for connection", 60)
        return process

    def client(self, port, verb, *options, address=NEAR, **variables):
        options = ["--rw=write", f"--verb={verb}", f"--hostname={address}", *options]
        return self.job("client", port, options, **variables)

    def report(self, process, said=""):
        """The only job's figures, of a fio that ended without errors; `said` was read already."""
        outcome = finish(process, 90)
        outcome.output = said + outcome.output
        self.assert_ok(outcome)
        job = json.loads(outcome.output[outcome.output.index("{\n"):])["jobs"][0]
        self.assertEqual(job["error"], 0)
        return job

    NO_RECEIVE = "RNR retry counter exceeded"

    def pair(self, verb, size, total, depth, far=None, serving=(), asking=(), **variables):
        """A client that moves `total` bytes in pieces of `size`, and its server: what they report.

        fio asks for no RNR retries and hangs when a request fails, so a SEND has to find a receive
        posted: the server has one for each message, and half a second (of fio's) to post them."""
        options = [f"--bs={size}", f"--size={total}"]
        for _ in range(3):
            port = free_port()
            receives = total // size if verb == "send" else depth
            server = self.server(port, *options, f"--iodepth={receives}", *serving,
                                 prefix=far.prefix() if far else (), **variables)
            client = self.client(port, verb, *options, f"--iodepth={depth}", *asking,
                                 address=FAR if far else NEAR, **variables)
            said = self.heard(client, self.NO_RECEIVE, 90)
            if self.NO_RECEIVE not in said:
                break
            self.end_all()
        sent = self.report(client, said)["write"]
        self.assertEqual((sent["io_bytes"], sent["total_ios"], sent["short_ios"]),
                         (total, total // size, 0))
        received = self.report(server)["read"]
        if verb == "send":
            self.assertEqual((received["io_bytes"], received["total_ios"]), (total, total // size))

    def transfer(self, verb, size, total, depth, **options):
        """The two buffers after a transfer, as blocks, and the server's as they were before."""
        there = self.buffers("server", size * (total // size if verb == "send" else depth))
        here = self.buffers("client", size * depth, byte=0)
        before = blocks(there, size)
        # Each block of the client's is filled once, with bytes of its own.
        self.pair(verb, size, total, depth, serving=[f"--mem=mmapshared:{there}"],
                  asking=[f"--mem=mmapshared:{here}", "--scramble_buffers=0"], **options)
        return blocks(here, size), blocks(there, size), before

    def check(self, verb, here, there, before):
        """fio takes the peer's blocks at random for WRITE and READ, and in turn for SEND."""
        if verb == "read":
            self.assertEqual(there, before)
            self.assertLessEqual(set(here), set(before))
            return
        self.assertEqual(len(set(here)), len(here))
        self.assertNotEqual(there, before)
        for block, old in zip(there, before):
            self.assertIn(block, here if verb == "send" else [*here, old])


@needs("fio")
class Fio(Jobs):
    SHAPES = [(4096, 1 << 20, 1), (65536, 8 << 20, 16)]

    def test_verbs(self):
        for road, env in ROADS.items():
            for verb in ("write", "read", "send"):
                for size, total, depth in self.SHAPES:
                    with self.subTest(road=road, verb=verb, size=size, depth=depth):
                        self.check(verb, *self.transfer(verb, size, total, depth, **env))

    @long_form("gigabytes, every size and depth")
    def test_verbs_long(self):
        for road, env in ROADS.items():
            for verb in ("write", "read", "send"):
                for size in (512, 4096, 65536, 1 << 20):
                    for depth in (1, 2, 32, 256):
                        with self.subTest(road=road, verb=verb, size=size, depth=depth):
                            # fio takes at most 512 receives, and SEND needs one for each.
                            total = min(size * (256 if verb == "send" else 20000), 1 << 30)
                            self.check(verb, *self.transfer(verb, size, total, depth, **env))

    def test_under_loss(self):
        for verb in ("write", "read", "send"):
            with self.subTest(verb=verb):
                outcome = self.transfer(verb, 65536, 4 << 20, 8, VERBENA_LOCAL="off",
                                        VERBENA_FAULT="drop=0.5%,seed=11")
                self.check(verb, *outcome)

    def test_sent_blocks_verify(self):
        """fio's own check: each block has a header with its place and a checksum."""
        self.pair("send", 16384, 1 << 20, 8, serving=["--verify=crc32c"],
                  asking=["--verify=crc32c", "--do_verify=0"])

    def test_unmarked_blocks_do_not_verify(self):
        """That the test above can fail. The client then never ends: its requests fail, and fio
        waits for the next completion instead."""
        options = ["--bs=16k", "--size=1m", "--iodepth=64"]
        port = free_port()
        server = self.server(port, *options, "--verify=crc32c")
        self.client(port, "send", *options)
        outcome = finish(server, 60)
        self.assertNotEqual(outcome.code, 0)
        self.assertIn("verify: bad magic header", outcome.output)


@needs("fio")
class TwoHosts(Jobs):
    """Between two network namespaces."""

    @classmethod
    def setUpClass(cls):
        cls.far = FarSide()
        cls.addClassCleanup(cls.far.close)

    def test_verbs(self):
        for verb in ("write", "read", "send"):
            with self.subTest(verb=verb):
                self.check(verb, *self.transfer(verb, 65536, 4 << 20, 16, far=self.far))


@needs("fio")
class Signals(Jobs):
    def test_term_while_it_waits_for_a_connection(self):
        """fio's handlers ask for restarts (SA_RESTART), so rdma_get_cm_event goes on waiting, as it
        does with the kernel's device. The next request wakes it, and as it ends it refuses."""
        port = free_port()
        server = self.server(port, "--bs=4k", "--size=1m")
        os.kill(server.pid, signal.SIGTERM)
        self.says(server, "terminating on signal 15")
        self.assertIsNone(server.poll())
        client = self.client(port, "write", "--bs=4k", "--size=1m")
        ended = finish(server, 60)
        self.assertEqual(ended.code, 128, ended.output)
        asked = finish(client, 60)
        self.assertIn("event is RDMA_CM_EVENT_REJECTED instead of RDMA_CM_EVENT_ESTABLISHED",
                      asked.output)

    def test_kill_of_a_listener_frees_its_port(self):
        port = free_port()
        options = ["--bs=4k", "--size=1m"]
        server = self.server(port, *options)
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        server = self.server(port, *options)
        self.assertEqual(self.report(self.client(port, "write", *options))["write"]["total_ios"],
                         256)
        self.report(server)

    def test_signals_while_data_moves(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            for verb in ("write", "read"):
                with self.subTest(signal=number.name, verb=verb):
                    port = free_port()
                    endless = ["--bs=4k", "--size=1g", "--time_based", "--runtime=1000"]
                    server = self.server(port, *endless)
                    client = self.client(port, verb, *endless, "--status-interval=1")
                    said = self.says(client, '"total_ios"')
                    os.kill(client.pid, number)
                    outcome = finish(client, 60)
                    self.assertEqual(outcome.code, 128, outcome.output)
                    self.assertIn(f"fio: terminating on signal {number.value}", outcome.output)
                    moved = re.findall(r'"total_ios" : (\d+)', said + outcome.output)
                    self.assertGreater(max(map(int, moved)), 0)
                    self.end_all()


if __name__ == "__main__":
    harness.main()
