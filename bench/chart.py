"""The picture of a run: throughput by message size beside its limits, and every promise."""

import statistics


def draw(path, figures, sweeps, verdicts):
    import matplotlib  # only where a picture is wanted
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "verbena", "svg.fonttype": "none"})
    from matplotlib import pyplot

    kept = [row for row in verdicts if row[1]]
    figure, (sizes, bars) = pyplot.subplots(2, 1, figsize=(9, 5 + 0.28 * len(kept)),
                                            height_ratios=[4.5, 0.28 * len(kept)])
    for name, by_size in sweeps.items():
        order = sorted(by_size)
        sizes.plot(order, [statistics.median(by_size[size]) for size in order], marker=".",
                   label=f"ib_write_bw, {name}")
    for name, style in (("memcpy into a shared mapping, 1 MiB", ":"),
                        ("process_vm_writev, 1 MiB", "-."),
                        ("raw UDP GSO/GRO, two namespaces, 4 KiB segments", "--"),
                        ("TCP over loopback: iperf3, one stream", (0, (1, 4)))):
        if name in figures:
            sizes.axhline(statistics.median(figures[name]), color="grey", linestyle=style,
                          label=name)
    sizes.set(xscale="log", yscale="log", xlabel="message size, bytes", ylabel="MiB/s")
    sizes.legend(fontsize="small")
    sizes.grid(alpha=0.3)
    # 1 is the bar, longer is better.
    reached = [value / bar if way == ">=" else bar / value for _, value, way, bar, _ in kept]
    colours = ["#1b7f4b" if met else "#c0392b" for *_, met in kept]
    bars.barh([name for name, *_ in kept], reached, color=colours)
    bars.axvline(1, color="black", linewidth=0.8)
    bars.set(xscale="log", xlabel="reached / bar (to the right of 1: met)")
    bars.invert_yaxis()
    bars.tick_params(axis="y", labelsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
