"""What bench/compare measures: each side is a name, a unit and a function that runs it once. Both
ends of a pair are held to a processor each, so that no side depends on where they land."""

import json
import os
import re
import shutil

import harness
from harness import FAR, NEAR, environment, finish, free_port, run, run_pair, start

BIN = os.path.join(harness.BUILD, "bin")
PROBE = os.path.join(BIN, "bench_probe")
SCALE = os.path.join(BIN, "bench_scale")
CONNECT = os.path.join(BIN, "bench_connect_rate")
ONE_MIB = str(2**20)
LAST = os.cpu_count() - 1
ON_FIRST, ON_LAST = ["taskset", "-c", "0"], ["taskset", "-c", str(LAST)]
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "n": 1e-3, "u": 1.0, "m": 1e3}


def pair(server, client, port, server_prefix=(), **more):
    server, client = run_pair(server, client, port, seconds=120,
                              server_prefix=[*server_prefix, *ON_FIRST], client_prefix=ON_LAST,
                              **more)
    if client.code != 0:
        raise RuntimeError(server.output + client.output)
    return server.output, client.output


def number(outcome, word=0):
    if outcome.code != 0:
        raise RuntimeError(outcome.output)
    return float(outcome.output.split()[word])


def rows(name, *arguments, address=NEAR, **more):
    """One perftest pair: the rows of the client's table, by message size."""
    port = free_port()
    command = [name, "-F", "-p", str(port), *arguments]
    _, output = pair(command, [*command, address], port, **more)
    found = [row.split() for row in re.findall(r"(?m)^ (\d+ .*)$", output)]
    if not found:
        raise RuntimeError(output)
    return {int(row[0]): [float(value) for value in row] for row in found}


def perftest(name, *arguments, column, **more):
    return next(iter(rows(name, *arguments, **more).values()))[column]


def bandwidth(name, *arguments, size=ONE_MIB, count="3000", **more):
    return perftest(name, "-s", size, "-n", count, *arguments, column=3, **more)  # MiB/s, average


# Without peaks (-N), for which perftest compares every message with every other. A count that is no
# multiple of what one completion stands for makes it wait for ever with many queue pairs.
def message_rate(name, *arguments, count="200000", **more):
    return perftest(name, "-N", "-s", "64", "-n", count, *arguments, column=4, **more)


def latency(name, *arguments, size="2", count="20000", **more):
    return perftest(name, "-s", size, "-n", count, *arguments, column=4, **more)  # us, median


def tcp(address=NEAR, prefix=()):
    port = free_port()
    _, output = pair(["iperf3", "-s", "-1", "-p", str(port)],
                     ["iperf3", "-c", address, "-p", str(port), "-t", "2", "-J"], port, prefix)
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8 / 2**20


def qperf_latency(address=NEAR, prefix=()):
    port = free_port()
    server = start([*ON_FIRST, "qperf", "-lp", str(port)], environment(), prefix)
    try:
        harness.wait_listening(port, server, prefix)
        client = run(["qperf", "-lp", str(port), "-t", "1", address, "tcp_lat"], prefix=ON_LAST)
    finally:
        server.kill()
        finish(server, 5)
    found = re.search(r"latency\s+=\s+([\d.]+) (\w?)s", client.output)
    if not found:
        raise RuntimeError(client.output)
    return float(found.group(1)) * UNITS[found.group(2)] if found.group(2) else float("nan")


def datagrams(segment, address, prefix):
    port = free_port()
    receiver = start([*ON_FIRST, PROBE, "udp-receive", str(port), "2"], environment(), prefix)
    run(["sleep", "0.3"])
    sender = start([*ON_LAST, PROBE, "udp-send", address, str(port), str(segment), "2.6"],
                   environment())
    finish(sender, 20)
    return number(finish(receiver, 20))


def datagram_ping(address, prefix):
    port = free_port()
    answering = start([*ON_FIRST, PROBE, "udp-pong", str(port), "3"], environment(), prefix)
    run(["sleep", "0.3"])
    value = number(run([PROBE, "udp-ping", address, str(port), "50000"], prefix=ON_LAST))
    answering.kill()
    finish(answering, 5)
    return value


UCX_OVER = {"Verbena": ("rc_v,self", "ucx0:1"), "TCP": ("tcp,self", "lo"),
            "shared memory": ("shm,cma,self", "all")}


def ucx(over, test, size, iterations, column):
    """One pair of ucx_perftest, all else the same; a figure of the client's result row."""
    transports, device = UCX_OVER[over]
    env = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    env.update(UCX_TLS=transports, UCX_NET_DEVICES=device)
    port = free_port()
    command = [harness.VERBENA, "run", "--device", "ucx0=near0", "--", "ucx_perftest", "-p",
               str(port)]
    _, output = pair(command, [*command, "-t", test, "-s", str(size), "-n", str(iterations), "-f",
                               NEAR], port, env=env)
    row = re.search(rf"(?m)^\s+{iterations}((?:\s+[\d.]+){{7}})$", output)
    if not row:
        raise RuntimeError(output)
    return float(row.group(1).split()[column])


def libfabric(provider, size, iterations, column):
    """fi_pingpong: MB/s or us a transfer."""
    port = str(free_port())
    command = ["fi_pingpong", "-e", "rdm", "-p", provider, "-S", str(size), "-I", str(iterations)]
    _, output = pair([*command, "-B", port], [*command, "-P", port, NEAR], int(port))
    row = output.strip().splitlines()[-1].split()
    return float(row[column]) * (1e6 / 2**20 if column == 5 else 1)


# --- the sides

def limits(far):
    across = far.prefix()
    return [
        ("memcpy into a shared mapping, 1 MiB", "MiB/s",
         lambda: number(run([PROBE, "memcpy", ONE_MIB], prefix=ON_LAST))),
        ("process_vm_writev, 1 MiB", "MiB/s",
         lambda: number(run([PROBE, "process_vm", ONE_MIB], prefix=ON_LAST))),
        ("ping through shared memory", "us", lambda: number(run([PROBE, "ping"]))),
        ("raw UDP GSO/GRO, loopback, 4 KiB segments", "MiB/s",
         lambda: datagrams(4096, NEAR, ())),
        ("raw UDP GSO/GRO, two namespaces, 4 KiB segments", "MiB/s",
         lambda: datagrams(4096, FAR, across)),
        ("raw UDP GSO/GRO, two namespaces, 1 KiB segments", "MiB/s",
         lambda: datagrams(1024, FAR, across)),
        ("UDP ping, two namespaces", "us", lambda: datagram_ping(FAR, across)),
    ]


def peers(far):
    found, missing = [], []

    def needs(program, *sides):
        found.extend(sides) if shutil.which(program) else missing.append(program)

    needs("iperf3",
          ("TCP over loopback: iperf3, one stream", "MiB/s", tcp),
          ("TCP two namespaces: iperf3, one stream", "MiB/s", lambda: tcp(FAR, far.prefix())))
    needs("qperf", ("TCP over loopback: qperf tcp_lat", "us", qperf_latency))
    needs("ucx_perftest", *[side for over in UCX_OVER for side in (
        (f"UCX over {over}: tag_bw 1 MiB", "MiB/s",
         lambda over=over: ucx(over, "tag_bw", 2**20, 3000, 4)),
        (f"UCX over {over}: tag_lat 8 B", "us",
         lambda over=over: ucx(over, "tag_lat", 8, 50000, 2)))])
    needs("fi_pingpong", *[side for provider in ("tcp;ofi_rxm", "shm") for side in (
        (f"libfabric {provider}: fi_pingpong 1 MiB", "MiB/s",
         lambda p=provider: libfabric(p, 2**20, 1000, 5)),
        (f"libfabric {provider}: fi_pingpong 64 B", "us",
         lambda p=provider: libfabric(p, 64, 20000, 6)))])
    for program in missing:
        print(f"not installed, left out: {program}")
    return found


def same_host():
    return [
        ("same host: ib_write_bw 1 MiB", "MiB/s", lambda: bandwidth("ib_write_bw")),
        ("same host: ib_read_bw 1 MiB", "MiB/s", lambda: bandwidth("ib_read_bw")),
        ("same host: ib_send_bw 1 MiB", "MiB/s", lambda: bandwidth("ib_send_bw")),
        ("same host: ib_write_bw 1 MiB, both ways", "MiB/s",
         lambda: bandwidth("ib_write_bw", "-b")),
        ("same host: ib_write_lat 2 B", "us", lambda: latency("ib_write_lat")),
        ("same host: ib_send_lat 2 B", "us", lambda: latency("ib_send_lat")),
        ("same host: ib_send_lat 2 B, events", "us", lambda: latency("ib_send_lat", "-e")),
        ("same host: ib_send_lat 2 B, UD", "us", lambda: latency("ib_send_lat", "-c", "UD")),
        ("same host: ib_read_lat 8 B", "us", lambda: latency("ib_read_lat", size="8")),
        ("same host: ib_atomic_lat", "us", lambda: latency("ib_atomic_lat", size="8")),
        ("same host: ib_write_bw 64 B, one QP", "M/s", lambda: message_rate("ib_write_bw")),
        ("same host: ib_write_bw 64 B, 64 QPs", "M/s",
         lambda: message_rate("ib_write_bw", "-q", "64", count="6400")),
        ("same host: ib_send_bw 64 B, one QP", "M/s", lambda: message_rate("ib_send_bw")),
    ]


def wire(far):
    across = {"address": FAR, "server_prefix": far.prefix()}

    def lossy(share):
        fault = environment(VERBENA_FAULT=f"drop={share}%,seed=7")
        return bandwidth("ib_write_bw", "-m", "4096", count="1000", env=fault, **across)

    return [
        ("over UDP, loopback: ib_write_bw 1 MiB", "MiB/s",
         lambda: bandwidth("ib_write_bw", env=environment(VERBENA_LOCAL="off"))),
        ("two namespaces: ib_write_bw 64 KiB, PMTU 4096", "MiB/s",
         lambda: bandwidth("ib_write_bw", "-m", "4096", size="65536", count="20000", **across)),
        ("two namespaces: ib_write_bw 64 KiB, PMTU 1024", "MiB/s",
         lambda: bandwidth("ib_write_bw", "-m", "1024", size="65536", count="10000", **across)),
        ("two namespaces: ib_write_bw 1 MiB, PMTU 4096", "MiB/s",
         lambda: bandwidth("ib_write_bw", "-m", "4096", **across)),
        ("two namespaces: ib_read_bw 1 MiB, PMTU 4096", "MiB/s",
         lambda: bandwidth("ib_read_bw", "-m", "4096", **across)),
        ("two namespaces: ib_write_bw 1 MiB, 0.1 % lost", "MiB/s", lambda: lossy("0.1")),
        ("two namespaces: ib_write_bw 1 MiB, 1 % lost", "MiB/s", lambda: lossy("1")),
        ("two namespaces: ib_write_lat 2 B", "us",
         lambda: latency("ib_write_lat", count="5000", **across)),
        ("two namespaces: ib_send_lat 2 B", "us",
         lambda: latency("ib_send_lat", count="5000", **across)),
        ("two namespaces: ib_write_bw 64 B, one QP", "M/s",
         lambda: message_rate("ib_write_bw", count="100000", **across)),
    ]


def scale():
    return [
        ("set-up of a queue pair, 1,000 of them", "us",
         lambda: number(run([SCALE, "queue-pairs", "1000"]))),
        ("memory of an idle queue pair, 10,000 of them", "KiB",
         lambda: number(run([SCALE, "queue-pairs", "10000"], seconds=120), 1)),
        ("one thread, 64 B", "1/s", lambda: number(run([SCALE, "threads", "1", "2"]))),
        ("two threads, 64 B", "1/s", lambda: number(run([SCALE, "threads", "2", "2"]))),
        ("one queue pair, 64 B", "1/s", lambda: number(run([SCALE, "spread", "1", "2"]))),
        ("1,000 queue pairs in turn, 64 B", "1/s",
         lambda: number(run([SCALE, "spread", "1000", "2"]))),
        ("threads before the first queue pair", "", lambda: number(run([SCALE, "quiet"]))),
        ("wake-ups of an idle process", "1/s", lambda: number(run([SCALE, "quiet"]), 1)),
        ("rdma_cm connect, accept, disconnect on one core", "1/s",
         lambda: number(run([CONNECT, NEAR, "4000", "16"], seconds=120))),
    ]


def sweeps(far):
    """Message sizes from 2 bytes to 8 MiB: (name, function that gives MiB/s by size)."""
    def by_size(**more):
        return {size: row[3] for size, row in rows("ib_write_bw", "-a", "-n", "1000",
                                                   **more).items()}
    return [("same host", by_size),
            ("two namespaces", lambda: by_size(address=FAR, server_prefix=far.prefix()))]
