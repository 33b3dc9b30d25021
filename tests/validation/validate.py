#!/usr/bin/env python3
"""The simulated fabric beside closed forms, the fluid model of DCQCN and the HPCC simulator's
results, each figure with the bound it must keep.

    tests/validation/validate.py BUILD [--write DOC.md]     exit status 1 when a bound is broken

--write: a page with all tables and a picture beside it, docs/validation.md and .svg.
"""

import statistics
import sys

import cases

SEEDS = 5
BUFFER, PORT_HEADROOM, RESERVED, ALPHA = 32 << 20, 37_500, 4096, 0.125


class Report:
    def __init__(self):
        self.sections, self.broken, self.points = [], 0, []

    def section(self, title, words):
        self.sections.append((title, words, []))

    def row(self, name, what, ours, reference, bound):
        """`bound`: share by which ours may differ; None: shown only."""
        off = ours / reference - 1 if reference else 0.0
        kept = bound is None or abs(off) <= bound
        self.broken += not kept
        self.points.append((f"{name}: {what}", off, bound))
        self.sections[-1][2].append((name, what, ours, reference, off, bound, kept))

    def text(self):
        out = []
        for title, words, rows in self.sections:
            out.append(f"## {title}\n\n{words}\n")
            out.append("| Case | Figure | Verbena | reference | difference | bound | |")
            out.append("|---|---|---:|---:|---:|---:|---|")
            for name, what, ours, reference, off, bound, kept in rows:
                limit = "-" if bound is None else f"{bound:.0%}"
                verdict = "" if bound is None else "kept" if kept else "BROKEN"
                out.append(f"| {name} | {what} | {ours:.4g} | {reference:.4g} | {off:+.1%} "
                           f"| {limit} | {verdict} |")
            out.append("")
        return "\n".join(out)

    def picture(self):
        """Each bounded figure as a point between its bounds."""
        points = [p for p in self.points if p[1] is not None and p[2]]
        height = 18 * len(points) + 50
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" '
               'font-family="sans-serif" font-size="11">',
               '<rect width="100%" height="100%" fill="white"/>',
               '<text x="10" y="18">Difference from the reference, as a share of the bound '
               '(grey: the bound)</text>']
        for i, (name, off, bound) in enumerate(points):
            y = 40 + 18 * i
            x = 530 + 190 * max(-1.1, min(1.1, off / bound))
            colour = "#1b7f4b" if abs(off) <= bound else "#c22"
            out.append(f'<text x="10" y="{y + 4}">{name}</text>'
                       f'<rect x="340" y="{y - 6}" width="380" height="12" fill="#e8e8ee"/>'
                       f'<line x1="530" x2="530" y1="{y - 8}" y2="{y + 8}" stroke="#999"/>'
                       f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"/>')
        return "\n".join(out + ["</svg>"]) + "\n"


def port(result, name):
    return next(p for p in result["ports"] if p["name"].startswith(name))


def mean(runs, of):
    return statistics.mean(of(run) for run in runs)


def seeded(build, text, seeds):
    return [cases.simulate(build, text.replace("[scenario]\n", f"[scenario]\nseed = {s}\n", 1))
            for s in range(1, seeds + 1)]


def standing_queues(build, report):
    report.section("PFC alone: the standing queue of N senders", (
        "N senders into one port, no congestion control, as the HPCC simulator models the buffer. "
        "Each holds alpha times what is free of the shared pool B': together "
        "N alpha / (1 + N alpha) B', and what is reserved. What was under way when the pauses left "
        "lies on top, 1.5 % at N = 16. (`pause_test` holds the shared part itself to 1 %.)"))
    for senders in (2, 4, 8, 16):
        result = cases.simulate(build, cases.star(senders, "none", 10))
        ports = senders + 1
        pool = BUFFER - ports * (PORT_HEADROOM + RESERVED)
        form = senders * ALPHA / (1 + senders * ALPHA) * pool + senders * RESERVED
        report.row(f"{senders}:1", "queue, KB", port(result, "s0")["queue_mean"] / 1e3, form / 1e3,
                   0.01 if senders < 16 else 0.02)


def fluid_points(build, report):
    report.section("DCQCN with SIGCOMM 2015 parameters, 40G", (
        "First as the HPCC simulator models it, against its runs. Then our own model, with CNP "
        f"packets and the byte counter, means of {SEEDS} seeds, against the fixed point of the "
        "fluid model (CoNEXT 2016). Which knows no fluctuation: marks are rare, so the queue's "
        "deviation is as large as its mean. At N = 10 it often passes Kmax, where every packet is "
        "marked: each flow is cut twice, and the mean lies far below (no bound). With the marking "
        "line continued above Kmax, as the model has it (4 % at 785 KB: the same slope), it is "
        "what the model says for packets of ours, of which 1024 bytes take 1106 of the link. The "
        "HPCC simulator's own runs are 22 % (N = 2) and 9 % (N = 10) above the fixed point."))
    reference = {line["run"]: line for line in cases.table("hpcc_ns3_summary")}
    marking = '[switch.ecn]\nmin = "5KB"\nmax = "200KB"\nprobability = "1%"\n'
    for flows in (2, 10, 20):
        line = reference[f"f_fluid40_{flows}"]
        result = cases.simulate(build, cases.star(flows, "sigcomm15", 200, "40G", marking))
        report.row(f"N = {flows} as HPCC", "goodput, Gb/s", result["values"]["goodput_gbps"],
                   float(line["tput_sum"]) * cases.CLOCK["40G"], 0.02)
        report.row(f"N = {flows} as HPCC", "mean queue, KB", port(result, "s0")["queue_mean"] / 1e3,
                   float(line["q_mean2_KB"]), 0.10)
    for line in cases.table("fluid_fixed_point"):
        flows = int(line["N"])
        if flows not in (2, 4, 8, 10):
            continue
        report.row(f"N = {flows}", "queue, KB, fluid",
                   fluid_queue(build, cases.fluid(flows), flows), float(line["qstar_KB"]),
                   0.10 if flows < 10 else None)
    for flows, fixed_point in cases.FLUID_1106.items():
        report.row(f"N = {flows}, line continued", "queue, KB, fluid",
                   fluid_queue(build, cases.fluid(flows, continued=True), flows), fixed_point, 0.10)


def fluid_queue(build, text, flows):
    return mean(seeded(build, text, SEEDS), lambda r: port(r, f"s0:{flows} ")["queue_mean"]) / 1e3


LONG = [("a_2to1", 2, 50), ("b_inc4_long", 4, 30), ("b_inc8_long", 8, 30), ("b_inc16_long", 16, 30)]


def long_flows(build, report):
    report.section("N to one as the HPCC simulator models it", (
        f"Means of {SEEDS} seeds; the reference is one run, its goodput corrected for its clock, "
        "which cuts 83.84 ns to 83. Marks are drawn at random, so queues differ between seeds as "
        "they do between the two programs."))
    reference = {line["run"]: line for line in cases.table("hpcc_ns3_summary")}
    for mode in ("dcqcn", "dcqcn_paper", "none"):
        for name, senders, milliseconds in LONG:
            line = reference[f"{name}_{mode}"]
            milliseconds = 10 if mode == "none" and senders > 2 else milliseconds
            runs = seeded(build, cases.star(senders, mode, milliseconds),
                          1 if mode == "none" else SEEDS)
            case = f"{senders}:1 {mode}"
            report.row(case, "goodput, Gb/s", mean(runs, lambda r: r["values"]["goodput_gbps"]),
                       float(line["tput_sum"]) * cases.CLOCK["100G"], 0.02)
            report.row(case, "mean queue, KB",
                       mean(runs, lambda r: port(r, "s0")["queue_mean"]) / 1e3,
                       float(line["q_mean2_KB"]), 0.10)
            report.row(case, "p99 queue, KB",
                       mean(runs, lambda r: port(r, "s0")["queue_p99"]) / 1e3,
                       float(line["q_p99_2_KB"]), 0.10)


def flow_goodput(result, name):
    return next(g["goodput_gbps"] for g in result["groups"] if g["name"] == name)


def victims(build, report):
    report.section("The victim of others' congestion", (
        "Three flows over one trunk, X more into the same receiver behind it: the third flow, for "
        "another receiver, pays. PFC alone and DCQCN."))
    reference = {line["run"]: line for line in cases.table("hpcc_ns3_summary")}
    for mode, more in [("none", 0), ("none", 2), ("dcqcn", 0), ("dcqcn", 2)]:
        line = reference[f"d_victim{more}_{mode}"]
        runs = seeded(build, cases.victim(mode, more), 1 if mode == "none" else SEEDS)
        report.row(f"X = {more} {mode}", "goodput, Gb/s",
                   mean(runs, lambda r: r["values"]["goodput_gbps"]),
                   float(line["tput_sum"]) * cases.CLOCK["100G"], 0.02)
        # PFC alone: the victim has as little as the guiltiest; with DCQCN it has the most.
        column = "tput_min" if mode == "none" else "tput_max"
        report.row(f"X = {more} {mode}", "of the victim, Gb/s",
                   mean(runs, lambda r: flow_goodput(r, "h2 to h4")),
                   float(line[column]) * cases.CLOCK["100G"], 0.03 if mode == "none" else 0.10)


TREE = [("fct_mean_us", "fct_mean_us", 0.05), ("slowdown_p50", "slow_p50", 0.07),
        ("slowdown_p95", "slow_p95", 0.07), ("slowdown_p99", "slow_p99", 0.20)]


def fat_tree(build, report):
    report.section("k = 4 fat tree, WebSearch 30 %", (
        f"The reference's own flow list. ECMP picks other paths here, so {SEEDS} seeds of the hash "
        "give a spread; the means are compared, the reference's times corrected for its clock."))
    reference = {line["run"]: line for line in cases.table("hpcc_ns3_summary")}
    for mode in ("dcqcn", "dcqcn_paper"):
        tree_rows(build, report, mode, reference, cases.CLOCK["100G"])


def tree_rows(build, report, mode, reference, clock):
    runs = [cases.simulate(build, cases.fat_tree(mode, seed)) for seed in range(1, SEEDS + 1)]
    for key, column, bound in TREE:
        values = [run["values"][key] for run in runs]
        spread = f"{key} ({min(values):.3g} to {max(values):.3g})"
        tail = mode == "hpcc" and key == "slowdown_p99"
        report.row(f"fat tree {mode}", spread, statistics.mean(values),
                   float(reference[f"c_ft4_ws30_{mode}"][column]) / clock,
                   None if tail else bound)


def hpcc_stars(build, report, reference):
    for name, senders, milliseconds in LONG:
        line = reference[f"{name}_hpcc"]
        result = cases.simulate(build, cases.star(senders, "hpcc", milliseconds))
        queue = port(result, f"s0:{senders} ")
        case = f"{senders}:1 hpcc"
        report.row(case, "goodput, Gb/s", result["values"]["goodput_gbps"],
                   float(line["tput_sum"]) * cases.HPCC_CLOCK, 0.02)
        report.row(case, "mean queue, KB", queue["queue_mean"] / 1e3, float(line["q_mean2_KB"]),
                   0.15)
        report.row(case, "p99 queue, KB", queue["queue_p99"] / 1e3, float(line["q_p99_2_KB"]),
                   0.10 if senders < 16 else None)


def hpcc(build, report):
    report.section("HPCC", (
        "As its authors' simulator has it: telemetry of five switches in every packet, no additive "
        "stages. Queues are of a packet or two of 1.09 KB (7 at 16:1 for 1 % of the time, where "
        "the reference has 5: no bound). Nothing is random but the fat tree's paths; "
        "goodput and times corrected for the reference's clock (87 for 87.2 ns). With two "
        "bottlenecks on the way (X = 2, the ring) our flows use 5 to 6 % more of the links than "
        "the reference's: shown without a bound, and not explained. "
        "The fat tree's p99 depends on which flows share a path more than with DCQCN: the "
        "reference's single draw lies among ours."))
    reference = {line["run"]: line for line in cases.table("hpcc_ns3_summary")}
    hpcc_stars(build, report, reference)
    for more, bound in ((0, 0.02), (2, None)):
        result = cases.simulate(build, cases.victim("hpcc", more))
        report.row(f"X = {more} hpcc", "goodput, Gb/s", result["values"]["goodput_gbps"],
                   float(reference[f"d_victim{more}_hpcc"]["tput_sum"]) * cases.HPCC_CLOCK, bound)
    result = cases.simulate(build, cases.ring("hpcc", 4))
    report.row("ring hpcc", "goodput, Gb/s", result["values"]["goodput_gbps"],
               float(reference["e_ring1_hpcc_b4"]["tput_sum"]) * cases.HPCC_CLOCK, None)
    tree_rows(build, report, "hpcc", reference, cases.HPCC_CLOCK)


def ring(build, report):
    report.section("A ring of five switches: deadlock or not", (
        "1: the pauses closed a cycle and nothing moved any more; the cycle is named by the run."))
    for line in cases.table("deadlock_ring"):
        mode = {"none(PFC only)": "none"}.get(line["cc"], line["cc"])
        if mode not in ("none", "dcqcn", "dcqcn_paper", "hpcc"):
            continue
        result = cases.simulate(build, cases.ring(mode, int(line["buffer_MB"])))
        verdict = float(result["values"]["deadlocks"] > 0)
        expected = float(line["deadlocked"] == "yes")
        report.row(f"{mode}, {line['buffer_MB']} MiB", "deadlock", verdict + 1, expected + 1, 0.0)


HEAD = """# Validation

`make validate` runs everything on this page and fails where a bound is broken; `make test` does
the same. Bounds are shares of the reference. Results of other programs are in
`tests/validation/data`.

![Differences from the references](validation.svg)

"""


def main():
    build = sys.argv[1]
    report = Report()
    for part in (standing_queues, fluid_points, long_flows, victims, fat_tree, hpcc, ring):
        part(build, report)
    print(report.text())
    if len(sys.argv) > 3 and sys.argv[2] == "--write":
        with open(sys.argv[3], "w", encoding="utf-8") as file:
            file.write(HEAD + report.text())
        with open(sys.argv[3].replace(".md", ".svg"), "w", encoding="utf-8") as file:
            file.write(report.picture())
    print(f"{report.broken} bounds broken")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
