"""What Verbena promises to reach, as ratios within one run: see docs/performance.md for what lies
behind the ones it misses."""

import statistics

MEMCPY, PROCESS_VM = "memcpy into a shared mapping, 1 MiB", "process_vm_writev, 1 MiB"
WRITE, READ = "same host: ib_write_bw 1 MiB", "same host: ib_read_bw 1 MiB"
RAW = "raw UDP GSO/GRO, two namespaces, {} KiB segments"
ACROSS = "two namespaces: ib_write_bw 64 KiB, PMTU {}"
FAR_TCP = "TCP two namespaces: iperf3, one stream"
WIRE_MIB = "two namespaces: ib_write_bw 1 MiB, PMTU 4096"
UCX = "UCX over {}: tag_bw 1 MiB"
UCX_LAT = "UCX over {}: tag_lat 8 B"

# what, the figure, what it is compared with (a figure, several: the largest, or none), the bar
PROMISES = [
    ("same host, ib_write_bw 1 MiB / the better of memcpy and process_vm_writev", WRITE,
     (MEMCPY, PROCESS_VM), ">=", 0.9),
    ("same host, ib_read_bw 1 MiB / the better of memcpy and process_vm_writev", READ,
     (MEMCPY, PROCESS_VM), ">=", 0.9),
    ("same host, ib_write_bw 1 MiB / UCX over shared memory", WRITE,
     UCX.format("shared memory"), ">=", 1.0),
    ("same host, ib_read_bw 1 MiB / UCX over shared memory", READ, UCX.format("shared memory"),
     ">=", 1.0),
    ("same host, ib_write_bw 1 MiB / TCP over loopback", WRITE,
     "TCP over loopback: iperf3, one stream", ">=", 2.0),
    ("same host, ib_write_lat 2 B, us", "same host: ib_write_lat 2 B", None, "<=", 1.0),
    ("same host, ib_write_lat 2 B / ping through shared memory", "same host: ib_write_lat 2 B",
     "ping through shared memory", "<=", 2.0),
    ("same host, ib_send_lat 2 B, us", "same host: ib_send_lat 2 B", None, "<=", 1.5),
    ("same host, ib_read_lat 8 B, us", "same host: ib_read_lat 8 B", None, "<=", 1.5),
    ("same host, ib_atomic_lat, us", "same host: ib_atomic_lat", None, "<=", 1.5),
    ("same host, 64 B, one QP, million a second", "same host: ib_write_bw 64 B, one QP", None,
     ">=", 5.0),
    ("wire, ib_write_bw 64 KiB, PMTU 4096 / raw UDP GSO/GRO", ACROSS.format(4096), RAW.format(4),
     ">=", 0.85),
    ("wire, ib_write_bw 64 KiB, PMTU 1024 / raw UDP GSO/GRO", ACROSS.format(1024), RAW.format(1),
     ">=", 0.85),
    ("wire, ib_write_bw 64 KiB, PMTU 4096 / TCP, one stream", ACROSS.format(4096), FAR_TCP,
     ">=", 1.3),
    ("wire, ib_write_bw 64 KiB, PMTU 1024 / TCP, one stream", ACROSS.format(1024), FAR_TCP,
     ">=", 1.3),
    ("wire, ib_write_lat 2 B / UDP ping", "two namespaces: ib_write_lat 2 B",
     "UDP ping, two namespaces", "<=", 1.3),
    ("wire, 0.1 % lost / nothing lost", "two namespaces: ib_write_bw 1 MiB, 0.1 % lost", WIRE_MIB,
     ">=", 0.9),
    ("wire, 1 % lost / nothing lost", "two namespaces: ib_write_bw 1 MiB, 1 % lost", WIRE_MIB,
     ">=", 0.5),
    ("set-up of a queue pair, us", "set-up of a queue pair, 1,000 of them", None, "<=", 20.0),
    ("64 B, one queue pair / 1,000 in turn, messages a second", "one queue pair, 64 B",
     "1,000 queue pairs in turn, 64 B", "<=", 1.2),
    ("memory of an idle queue pair, KiB", "memory of an idle queue pair, 10,000 of them", None,
     "<=", 4.0),
    ("two threads, two QPs / one", "two threads, 64 B", "one thread, 64 B", ">=", 1.7),
    ("wake-ups a second of an idle process", "wake-ups of an idle process", None, "<=", 0.0),
    ("threads before the first queue pair", "threads before the first queue pair", None,
     "<=", 0.0),
    ("rdma_cm connect, accept, disconnect on one core, a second",
     "rdma_cm connect, accept, disconnect on one core", None, ">=", 2000.0),
    ("UCX tag_bw 1 MiB over Verbena / over TCP", UCX.format("Verbena"), UCX.format("TCP"),
     ">=", 1.0),
    ("UCX tag_lat 8 B over Verbena / over TCP", UCX_LAT.format("Verbena"), UCX_LAT.format("TCP"),
     "<=", 1.0),
]
SMOOTH = "throughput from 2 B to 8 MiB, {}: least / most so far"
SMOOTH_BAR = 0.9


def steepest_fall(by_size):
    """The least share of the best smaller size that any size keeps."""
    best, worst = 0.0, 1.0
    for size in sorted(by_size):
        value = statistics.median(by_size[size])
        if best:
            worst = min(worst, value / best)
        best = max(best, value)
    return worst


def judge(figures, sweeps):
    """Rows of (promise, value or None where a side is missing, comparison, bar, met)."""
    found = []
    for name, top, bottom, comparison, bar in PROMISES:
        below = bottom if isinstance(bottom, tuple) else (bottom,) if bottom else ()
        value = None
        if all(side in figures for side in (top, *below)):
            value = statistics.median(figures[top])
            if below:
                value /= max(statistics.median(figures[side]) for side in below)
        found.append((name, value, comparison, bar))
    for name, by_size in sweeps.items():
        found.append((SMOOTH.format(name), steepest_fall(by_size), ">=", SMOOTH_BAR))
    return [(name, value, comparison, bar,
             value is not None and (value >= bar if comparison == ">=" else value <= bar))
            for name, value, comparison, bar in found]
