// The pictures of a report: the fabric coloured by heat, lines over time, distributions. The data
// is in the page; the tables do not need any of this.
"use strict";
(function () {
  const node = document.getElementById("data");
  if (!node) return;
  const data = JSON.parse(node.textContent);
  const kSvg = "http://www.w3.org/2000/svg";
  const colours = 8;
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";

  function svg(tag, attributes, parent, text) {
    const made = document.createElementNS(kSvg, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function html(tag, attributes, parent, text) {
    const made = document.createElement(tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }
  function show(event, text) {
    tip.textContent = text;
    tip.style.display = "block";
    const right = event.clientX + 16 + tip.offsetWidth > window.innerWidth;
    tip.style.left = (right ? event.clientX - 14 - tip.offsetWidth : event.clientX + 14) + "px";
    const low = event.clientY + 14 + tip.offsetHeight > window.innerHeight;
    tip.style.top = (low ? event.clientY - 12 - tip.offsetHeight : event.clientY + 14) + "px";
  }
  function hide() { tip.style.display = "none"; }

  // --- numbers for people
  function digits(value) {
    const size = Math.abs(value);
    return size === 0 ? "0" : size >= 99.95 ? value.toFixed(0)
      : size >= 9.995 ? value.toFixed(1) : size >= 0.01 ? value.toFixed(2) : value.toExponential(1);
  }
  function scaled(value, units, first) {
    let unit = first || 0;
    while (unit + 1 < units.length && Math.abs(value) >= 1000) { value /= 1000; ++unit; }
    while (unit > 0 && value !== 0 && Math.abs(value) < 1) { value *= 1000; --unit; }
    return digits(value) + " " + units[unit];
  }
  const asBytes = (v) => scaled(v, ["B", "KB", "MB", "GB", "TB"]);
  const asTime = (v) => scaled(v, ["ps", "ns", "us", "ms", "s"], 2);
  const asRate = (v) => digits(v) + " Gb/s";
  const asShare = (v) => digits(v * 100) + " %";
  const asNumber = (v) => digits(v);

  // --- the fabric
  const kHeat = [[207, 214, 221], [240, 200, 96], [226, 110, 46], [165, 18, 60]];
  function heat(share) {
    if (!(share > 0)) return "var(--cold)";
    const at = Math.min(0.9999, Math.sqrt(share)) * (kHeat.length - 1);
    const i = Math.floor(at), f = at - i;
    const mix = (c) => Math.round(kHeat[i][c] + (kHeat[i + 1][c] - kHeat[i][c]) * f);
    return "rgb(" + mix(0) + "," + mix(1) + "," + mix(2) + ")";
  }
  const kMetrics = {
    use: { label: "link use", of: (p) => p.use, text: asShare, most: 1 },
    queue: { label: "longest queue", of: (p) => p.queue, text: asBytes },
    pause: { label: "time paused", of: (p) => p.paused_us, text: asTime },
    marks: { label: "CE marks", of: (p) => p.marks, text: asNumber },
    drops: { label: "drops", of: (p) => p.drops, text: asNumber },
  };

  function layout(width) {
    const nodes = data.nodes.map((n, i) => ({ ...n, i, x: 0, y: 0 }));
    const beside = nodes.map(() => []);
    for (const [a, b] of data.links) { beside[a].push(b); beside[b].push(a); }
    if (data.kind === "ring") return ring(nodes, beside, width);
    const tiers = [];
    for (const n of nodes) (tiers[n.tier] = tiers[n.tier] || []).push(n);
    const rows = tiers.filter((t) => t);
    const gap = Math.min(150, Math.max(96, 420 / rows.length));
    rows.forEach((row, r) => {
      // Under what it hangs on: by the mean place of the neighbours below.
      if (r > 0)
        for (const n of row) {
          const below = beside[n.i].filter((m) => nodes[m].tier < n.tier);
          n.want = below.length ? below.reduce((s, m) => s + nodes[m].x, 0) / below.length : n.i;
        }
      else orderHosts(row, beside);
      row.sort((a, b) => (a.want ?? a.i) - (b.want ?? b.i) || a.i - b.i);
      row.forEach((n, k) => {
        n.x = 40 + (width - 80) * (k + 0.5) / row.length;
        n.y = 34 + gap * (rows.length - 1 - r);
        n.room = (width - 80) / row.length;
      });
    });
    return { nodes, height: 34 + gap * (rows.length - 1) + 44 };
  }
  function orderHosts(row, beside) {
    for (const n of row) n.want = (beside[n.i][0] ?? 0) * 1e6 + n.i;
  }
  function ring(nodes, beside, width) {
    const switches = nodes.filter((n) => n.switch), height = 460;
    const around = (n, at, r) => {
      n.x = width / 2 + r * 1.35 * Math.sin(2 * Math.PI * at);
      n.y = height / 2 - r * Math.cos(2 * Math.PI * at);
      n.room = 80;
      n.above = n.y < height / 2;
    };
    switches.forEach((s, k) => {
      around(s, k / switches.length, 120);
      const hosts = beside[s.i].filter((m) => !nodes[m].switch);
      hosts.forEach((h, j) => {
        const spread = 0.6 / switches.length;
        around(nodes[h], k / switches.length + spread * ((j + 0.5) / hosts.length - 0.5), 195);
      });
    });
    return { nodes, height };
  }

  function drawFabric(place) {
    const width = 1120;
    const { nodes, height } = layout(width);
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    svg("title", {}, picture, "The fabric, its links coloured by heat");
    const lines = svg("g", {}, picture), dots = svg("g", {}, picture);
    const thick = data.links.length > 600 ? 1.1 : data.links.length > 150 ? 1.7 : 2.6;
    const halves = [];
    data.links.forEach(([a, b], i) => {
      for (const end of [0, 1]) {
        const from = nodes[end ? b : a], to = nodes[end ? a : b];
        const d = Math.hypot(to.x - from.x, to.y - from.y) || 1;
        const ox = -(to.y - from.y) / d * thick * 0.75, oy = (to.x - from.x) / d * thick * 0.75;
        const flat = Math.abs(from.y - to.y) < 1 && data.kind !== "ring" &&
          Math.abs(from.x - to.x) > from.room * 1.5;
        const path = flat
          ? `M${from.x} ${from.y + oy}Q${(from.x + to.x) / 2} ${from.y - 50 + oy} ${to.x} ${to.y + oy}`
          : `M${from.x + ox} ${from.y + oy}L${to.x + ox} ${to.y + oy}`;
        const line = svg("path", { d: path, fill: "none", "stroke-width": thick }, lines);
        const port = data.ports[2 * i + end];
        line.addEventListener("mousemove", (e) => show(e, portWords(port)));
        line.addEventListener("mouseleave", hide);
        halves.push({ line, port });
      }
    });
    for (const n of nodes) drawNode(n, dots);
    choose(place, picture, halves);
  }
  function portWords(p) {
    const words = [p.name, `${digits(p.gbps)} Gb/s, ${asShare(p.use)} used`,
      `longest queue ${asBytes(p.queue)}`];
    if (p.paused_us > 0) words.push(`paused ${asTime(p.paused_us)}`);
    if (p.tx_pause + p.rx_pause > 0)
      words.push(`pause frames ${p.tx_pause} sent, ${p.rx_pause} received`);
    if (p.marks > 0) words.push(`${p.marks} CE marks`);
    if (p.drops > 0) words.push(`${p.drops} drops`);
    return words.join("\n");
  }
  function drawNode(n, parent) {
    const shown = n.room > n.name.length * 6.6 + 6;
    const group = svg("g", {}, parent);
    if (n.switch) {
      const w = shown ? Math.max(44, n.name.length * 6.6 + 16) : Math.max(5, Math.min(14, n.room - 3));
      svg("rect", { x: n.x - w / 2, y: n.y - 11, width: w, height: 22, rx: 5,
        fill: "var(--card)", stroke: "var(--soft)", "stroke-width": 1.2 }, group);
      if (shown)
        svg("text", { x: n.x, y: n.y + 4, "text-anchor": "middle", class: "name" }, group, n.name);
    } else {
      const r = Math.max(1.4, Math.min(6, n.room / 2 - 0.6));
      svg("circle", { cx: n.x, cy: n.y, r, fill: "var(--soft)" }, group);
      if (shown && n.room > 24)
        svg("text", { x: n.x, y: n.y + (n.above ? -12 : 20), "text-anchor": "middle" }, group, n.name);
    }
    svg("title", {}, group, n.name);
  }
  function choose(place, picture, halves) {
    const buttons = html("div", { class: "choice", role: "group" }, place);
    place.appendChild(picture);
    const scale = html("div", { class: "scale" }, place);
    const least = html("span", {}, scale, "0"), bar = html("i", {}, scale), most = html("span", {}, scale);
    const stops = [0, 0.04, 0.11, 0.25, 0.45, 0.7, 1].map((s) => `${heat(s || 1e-9)} ${s * 100}%`);
    bar.style.background = `linear-gradient(90deg,${stops.join(",")})`;
    function paint(key) {
      const metric = kMetrics[key];
      const top = metric.most || Math.max(...halves.map((h) => metric.of(h.port)), 0);
      for (const { line, port } of halves)
        line.setAttribute("stroke", heat(top > 0 ? metric.of(port) / top : 0));
      const hot = halves.slice().sort((a, b) => metric.of(a.port) - metric.of(b.port));
      for (const { line } of hot) line.parentNode.appendChild(line);  // the hottest on top
      least.textContent = metric.label + ": 0";
      most.textContent = metric.text(top);
      for (const b of buttons.children)
        b.setAttribute("aria-pressed", b.dataset.key === key ? "true" : "false");
    }
    for (const key in kMetrics) {
      if (key !== "use" && !halves.some((h) => kMetrics[key].of(h.port) > 0)) continue;
      const b = html("button", { type: "button", "data-key": key }, buttons, kMetrics[key].label);
      b.addEventListener("click", () => paint(key));
    }
    paint(place.dataset.first && [...buttons.children].some((b) => b.dataset.key === place.dataset.first)
      ? place.dataset.first : "use");
  }

  // --- lines
  function ticks(most, count) {
    if (!(most > 0)) return [0];
    const raw = most / count, power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const out = [];
    for (let v = 0; v <= most * 1.0001; v += step) out.push(v);
    return out;
  }
  // Ticks share a unit, so they are written without more digits than the step needs.
  function axisText(values, text) {
    return values.map((v) => v === 0 ? "0" : text(v).replace(/\.0+ /, " ").replace(/(\.\d*?)0+ /, "$1 ").replace(/\.0+$/, ""));
  }

  function chart(place, options) {
    const card = html("div", { class: "card" }, place);
    html("h3", {}, card, options.title);
    html("p", { class: "note" }, card, options.note);
    const w = 520, h = 230, left = 62, right = 12, top = 8, bottom = 26;
    const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" }, card);
    svg("title", {}, picture, options.title);
    // Over less than half a decade a logarithmic scale has nothing to write beside it.
    const sideways = options.series.flatMap((s) => s.x).filter((x) => x > 0);
    const log = options.log && Math.max(...sideways) / Math.min(...sideways) > 3;
    const all = options.series.flatMap((s) => s.y).concat((options.limits || []).map((l) => l.y));
    const yMost = options.yMost || Math.max(...all, 0) * 1.05 || 1;
    const xs = options.series.flatMap((s) => s.x);
    const xLeast = options.log ? Math.max(1e-9, Math.min(...xs)) : 0, xMost = Math.max(...xs) || 1;
    const lx = (v) => log ? Math.log(v / xLeast) / Math.log(xMost / xLeast || 2)
      : (v - xLeast) / (xMost - xLeast);
    const X = (v) => left + (w - left - right) * (xMost > xLeast ? lx(v) : 0.5);
    const Y = (v) => h - bottom - (h - top - bottom) * Math.min(1, v / yMost);
    if (options.warm > 0 && options.warm < xMost)
      svg("rect", { class: "warm", x: left, y: top, width: X(options.warm) - left,
        height: h - top - bottom }, picture);
    const yTicks = ticks(yMost, 4), yTexts = axisText(yTicks, options.yText);
    yTicks.forEach((v, i) => {
      svg("line", { class: "grid", x1: left, x2: w - right, y1: Y(v), y2: Y(v) }, picture);
      svg("text", { x: left - 8, y: Y(v) + 4, "text-anchor": "end" }, picture, yTexts[i]);
    });
    const xTicks = log ? decades(xLeast, xMost)
      : options.log ? [xLeast, (xLeast + xMost) / 2, xMost] : ticks(xMost, 5);
    const xTexts = axisText(xTicks, options.xText);
    xTicks.forEach((v, i) => svg("text", { x: X(v), y: h - 8,
      "text-anchor": X(v) > w - 40 ? "end" : "middle" }, picture, xTexts[i]));
    svg("line", { class: "axis", x1: left, x2: w - right, y1: Y(0), y2: Y(0) }, picture);
    for (const limit of options.limits || []) {
      svg("line", { class: "limit", x1: left, x2: w - right, y1: Y(limit.y), y2: Y(limit.y) }, picture);
      svg("text", { x: w - right - 2, y: Y(limit.y) - 4, "text-anchor": "end" }, picture, limit.name);
    }
    options.series.forEach((s, i) => {
      let d = "";
      s.x.forEach((x, k) => {
        if (options.log && !(x > 0)) return;
        if (options.steps && !d) d = `M${X(x).toFixed(1)} ${Y(0).toFixed(1)}`;
        d += d && options.steps ? `H${X(x).toFixed(1)}V${Y(s.y[k]).toFixed(1)}`
          : `${d ? "L" : "M"}${X(x).toFixed(1)} ${Y(s.y[k]).toFixed(1)}`;
      });
      if (s.x.length === 1)
        svg("circle", { cx: X(s.x[0]), cy: Y(s.y[0]), r: 3, fill: colour(i) }, picture);
      svg("path", { class: "series", d, stroke: colour(i), "stroke-dasharray": dash(i) }, picture);
    });
    keys(card, options.series);
    follow(picture, options, X, { left, right, top, bottom, w, h });
  }
  const colour = (i) => `var(--s${i % colours})`;
  const dash = (i) => i < colours ? "none" : "5 3";
  function decades(least, most) {
    const out = [];
    for (let p = Math.floor(Math.log10(least)); p <= Math.ceil(Math.log10(most)); ++p)
      for (const m of most / least > 300 ? [1] : [1, 2, 5]) {
        const v = m * Math.pow(10, p);
        if (v >= least * 0.999 && v <= most * 1.001) out.push(v);
      }
    return out.length ? out : [least];
  }
  function keys(card, series) {
    if (series.length < 2 && !series[0].name) return;
    const list = html("div", { class: "keys" }, card);
    series.forEach((s, i) => {
      const item = html("span", {}, list);
      html("i", {}, item).style.background = colour(i);
      item.appendChild(document.createTextNode(s.name));
    });
  }
  function follow(picture, options, X, box) {
    const rule = svg("line", { class: "limit", y1: box.top, y2: box.h - box.bottom, x1: -9, x2: -9 }, picture);
    picture.addEventListener("mousemove", (e) => {
      const bounds = picture.getBoundingClientRect();
      const x = (e.clientX - bounds.left) / bounds.width * box.w;
      const words = [];
      let at = null;
      for (const s of options.series) {
        if (!s.x.length) continue;
        let best = 0;
        s.x.forEach((v, k) => { if (Math.abs(X(v) - x) < Math.abs(X(s.x[best]) - x)) best = k; });
        at = at === null || Math.abs(X(s.x[best]) - x) < Math.abs(X(at) - x) ? s.x[best] : at;
        words.push([s.y[best], `${s.name ? s.name + ": " : ""}${options.log
          ? options.xText(s.x[best]) + " for " + asShare(s.y[best]) : options.yText(s.y[best])}`]);
      }
      if (at === null) return;
      rule.setAttribute("x1", X(at));
      rule.setAttribute("x2", X(at));
      if (!options.log) words.sort((a, b) => b[0] - a[0]);
      show(e, (options.log ? "" : "at " + options.xText(at) + "\n") +
        words.slice(0, 10).map((p) => p[1]).join("\n"));
    });
    picture.addEventListener("mouseleave", () => { hide(); rule.setAttribute("x1", -9); rule.setAttribute("x2", -9); });
  }

  // Who was paused when: a bar for each port, darker where it was stopped for longer.
  function pauseBars(place) {
    const card = html("div", { class: "card" }, place);
    html("h3", {}, card, "Paused ports");
    html("p", { class: "note" }, card, "each bar is dark where pause frames stopped the port");
    const w = 520, row = 18, left = 150, right = 12, h = data.pauses.length * row + 26;
    const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" }, card);
    const time = data.time_us, most = time[time.length - 1];
    const X = (v) => left + (w - left - right) * v / most;
    data.pauses.forEach((bar, i) => {
      const port = data.ports[bar.port], y = i * row;
      svg("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, picture,
        port.name.length > 24 ? port.name.slice(0, 23) + "…" : port.name);
      const line = svg("g", {}, picture);
      svg("rect", { x: left, y: y + 3, width: w - left - right, height: row - 6, fill: "var(--grid)" }, line);
      bar.paused.forEach((share, k) => {
        if (!(share > 0)) return;
        const from = k ? time[k - 1] : 0;
        svg("rect", { x: X(from), y: y + 3, width: Math.max(0.7, X(time[k]) - X(from)), height: row - 6,
          fill: "var(--s6)", opacity: 0.25 + 0.75 * share }, line);
      });
      line.addEventListener("mousemove", (e) => show(e, portWords(port)));
      line.addEventListener("mouseleave", hide);
    });
    const marks = ticks(most, 5), texts = axisText(marks, asTime);
    marks.forEach((v, i) => svg("text", { x: X(v), y: h - 8,
      "text-anchor": X(v) > w - 40 ? "end" : "middle" }, picture, texts[i]));
  }

  function overTime(place) {
    const x = data.time_us, warm = data.warm_up_us;
    const time = { xText: asTime, warm };
    if (data.queues.length) {
      const first = data.ports[data.queues[0].port];
      const longest = Math.max(...data.queues.flatMap((q) => q.bytes));
      const most = Math.max(longest, first.kmax < longest * 1.6 ? first.kmax : 0);
      const limits = [["Kmin", first.kmin], ["Kmax", first.kmax]]
        .filter((l) => l[1] > most * 0.08 && l[1] <= most).map(([name, y]) => ({ name, y }));
      if (limits.length === 2 && limits[1].y - limits[0].y < most * 0.08) limits.shift();
      chart(place, { ...time, title: "Queues", note: "the longest ones, bytes that wait at an egress port",
        yText: asBytes, limits,
        series: data.queues.filter((q) => Math.max(...q.bytes) > longest * 0.02).map((q) => ({ name: data.ports[q.port].name, x, y: q.bytes })) });
    }
    chart(place, { ...time, title: "Goodput", note: "payload that all hosts received", yText: asRate,
      series: [{ name: "", x, y: data.goodput }] });
    const flows = data.flows.filter((f) => f.goodput.some((v) => v > 0));
    if (flows.length)
      chart(place, { ...time, title: "Goodput of flows", note: "the largest ones", yText: asRate,
        series: flows.map((f) => ({ name: f.name, x: data.flow_time_us, y: f.goodput })) });
    const paced = data.flows.filter((f) => f.rate.some((v) => v > 0));
    if (paced.length) {
      chart(place, { ...time, title: "Rates", note: "what congestion control allows the largest flows",
        yText: asRate, series: paced.map((f) => ({ name: f.name, x: data.flow_time_us, y: f.rate })) });
      if (paced.some((f) => f.alpha.some((v) => v > 0)))
        chart(place, { ...time, title: "Alpha", note: "congestion as the senders estimate it", yText: asNumber,
          series: paced.map((f) => ({ name: f.name, x: data.flow_time_us, y: f.alpha })) });
    }
    if (data.pauses.length) pauseBars(place);
  }

  function distributions(place) {
    const draw = (key, title, note, xText) => {
      const series = data.distributions.filter((d) => d[key].length)
        .map((d) => ({ name: d.name, x: d[key].map((p) => p[0]), y: d[key].map((p) => p[1]) }));
      if (series.length)
        chart(place, { title, note, log: true, steps: true, yMost: 1, yText: asShare, xText, series });
    };
    draw("fct_us", "Flow completion times", "share of flows done within a time", asTime);
    draw("slowdown", "Slowdown", "completion time over that on an empty fabric", asNumber);
  }

  // --- several runs side by side
  function compare(place) {
    const names = data.runs.map((r) => r.name);
    for (const metric of data.metrics) {
      const values = data.runs.map((r) => r.values[metric.name]);
      if (values.every((v) => v === values[0])) continue;  // it tells nothing apart
      const text = { us: asTime, bytes: asBytes, "Gb/s": asRate }[metric.unit] || digits;
      const card = html("div", { class: "card" }, place);
      html("h3", {}, card, metric.help[0].toUpperCase() + metric.help.slice(1));
      html("p", { class: "note" }, card, metric.name);
      const w = 520, row = 22, left = 190, h = names.length * row + 4;
      const most = Math.max(...values) || 1;
      const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img" }, card);
      data.runs.forEach((run, i) => {
        const value = run.values[metric.name];
        svg("text", { x: left - 8, y: i * row + 15, "text-anchor": "end", class: "name" }, picture,
          run.name.length > 30 ? run.name.slice(0, 29) + "…" : run.name);
        svg("rect", { x: left, y: i * row + 4, height: row - 8, rx: 2, fill: colour(0),
          width: Math.max(1, (w - left - 70) * value / most) }, picture);
        svg("text", { x: left + (w - left - 70) * value / most + 6, y: i * row + 15 }, picture, text(value));
      });
    }
    const lines = (title, note, key, yText) => {
      const series = data.runs.filter((r) => r[key] && r[key].length)
        .map((r) => ({ name: r.name, x: r.time_us, y: r[key] }));
      if (series.length) chart(place, { title, note, xText: asTime, yText, series });
    };
    lines("Longest queue", "of each run, over time", "queue", asBytes);
    lines("Goodput", "payload that all hosts received", "goodput", asRate);
    const series = data.runs.filter((r) => r.fct_us.length)
      .map((r) => ({ name: r.name, x: r.fct_us.map((p) => p[0]), y: r.fct_us.map((p) => p[1]) }));
    if (series.length)
      chart(place, { title: "Flow completion times", note: "share of flows done within a time", log: true,
        steps: true, yMost: 1, yText: asShare, xText: asTime, series });
  }

  const place = (id) => document.getElementById(id);
  if (place("fabric")) drawFabric(place("fabric"));
  if (place("time") && data.time_us) overTime(place("time"));
  if (place("spread")) distributions(place("spread"));
  if (place("compare")) compare(place("compare"));
})();
