// The charts of an elastic run.

const OPERATIONS = [["both", "dispatch + combine"], ["dispatch", "dispatch"], ["combine", "combine"]];
const RATES = [["gbps", "dispatch + combine, logical"], ["dispatch_logical_gbps", "dispatch, logical"],
  ["dispatch_wire_gbps", "dispatch, wire"], ["combine_logical_gbps", "combine, logical"],
  ["combine_wire_gbps", "combine, wire"]];
const MARKS = { join: "\u25b8", leave: "\u25c2", kill: "\u2715", failed: "!", interrupted: "?" };

function phaseLabel(run) {
  return (i) => String(run.data.phases[i] ? run.data.phases[i].index : "");
}

function gridHeight(rows) {
  return Math.max(220, Math.min(rows * 20, 920) + 70);
}

// --- the timeline ---

function timelineCell(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  if (!cell)
    return change ? { colour: colours.left, mark: MARKS[change.change] } : null;
  const state = stateOf(run, cell);
  const mark = MARKS[state] || (change ? MARKS[change.change] : "");
  return { colour: colours[state] || colours.left, mark: mark, edge: change !== undefined && change.change === "join" };
}

function timelineTip(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  const lines = ["rank " + run.data.ranks[rank] + ", phase " + run.data.phases[phase].index];
  if (cell) {
    lines.push(stateOf(run, cell) + (cell[run.at.life] ? ", life " + cell[run.at.life] : "") +
      (run.data.hosts[cell[run.at.host]] ? ", on " + run.data.hosts[cell[run.at.host]] : ""));
    if (run.data.reasons[cell[run.at.reason]]) lines.push(run.data.reasons[cell[run.at.reason]]);
    if (run.measured(cell)) lines.push("p50 " + time(cell[run.at.both_p50]) + ", p99 " + time(cell[run.at.both_p99]));
  }
  if (change) {
    lines.push(change.change + (change.epoch ? ": view " + change.epoch + " from operation " + change.op : ""));
    if (change.detect_us !== null) lines.push("found after " + time(change.detect_us));
  }
  return cell || change ? lines.join("\n") : "";
}

// Two rows stand above the ranks: the view in which each phase ended its changes, and the longest stall they cost.
function timelineCard(run) {
  const ranks = run.data.ranks, phases = run.data.phases;
  const views = run.byPhase.map((changes) => largest(changes, "epoch"));
  const stalls = run.byPhase.map((changes) => largest(changes, "longest_stall_us"));
  const worst = Math.max(1, ...stalls);
  const paint = (phase, row) => {
    if (row >= 2) return timelineCell(run, phase, row - 2);
    if (row === 0) return views[phase] > 0 ? { colour: colours.ground, mark: String(views[phase]), spread: true } : null;
    const share = Math.sqrt(stalls[phase] / worst);
    return stalls[phase] < 0 ? null : { colour: heat(share), mark: time(stalls[phase]),
      ink: (share > 0.5) !== isDark() ? "#ffffff" : isDark() && share > 0.5 ? "#000000" : colours.text };
  };
  const tip = (phase, row) => {
    if (row >= 2) return timelineTip(run, phase, row - 2);
    if (row === 0) return views[phase] > 0 ? "view " + views[phase] + " after the changes of phase " + phase : "";
    const change = run.byPhase[phase].find((one) => one.longest_stall_us === stalls[phase]);
    return !change ? "" : "longest stall " + time(stalls[phase]) + " of rank " + change.stalled_rank + "\nits median " +
      time(change.median_us);
  };
  const draw = (canvas, figure) => drawGrid(canvas, figure, { columns: phases.length, rows: ranks.length + 2, heads: 2,
    xTitle: "phase", yTitle: "rank", xLabel: phaseLabel(run), paint: paint, tip: tip,
    yLabel: (i) => i === 0 ? "view" : i === 1 ? "stall" : String(ranks[i - 2]) });
  const used = new Set(run.data.cells.map((cell) => stateOf(run, cell)));
  const legend = () => run.data.states.filter((state) => used.has(state)).map((state) =>
    [colours[state] || colours.left, MARKS[state] || "", state]).concat([["", MARKS.join, "joined"], ["", MARKS.leave,
    "left"], ["", MARKS.kill, "killed as planned"]]);
  const table = dataTable("timeline", "state of every rank by phase", ["rank"].concat(phases.map((phase) =>
    ({ name: "phase " + phase.index, text: true }))), () => ranks.map((rank, r) => [rank].concat(phases.map((phase, p) =>
    { const cell = cellOf(run, p, r); return cell ? stateOf(run, cell) : ""; }))));
  return chartCard("Ranks and phases", "Who took part in which phase and how it went; above, the view that the phase's " +
    "changes ended in and the longest stall of a survivor meanwhile.", draw, table,
  { wide: true, height: gridHeight(ranks.length + 2), legend: legend }).section;
}

// --- lines by phase ---

function lineChart(canvas, datasets, xTitle, yTitle, tips, log) {
  return new Chart(canvas, { type: "line", data: { datasets: datasets }, options: commonOptions({ tips: tips, scales: {
    x: axis(xTitle, { type: "linear", ticks: { precision: 0 } }),
    y: log ? logAxis(yTitle, short) : axis(yTitle, { type: "linear", beginAtZero: true }) } }) });
}

// For each phase, a number out of the ranks that were measured: {x, y, low, high}.
function overRanks(run, pick) {
  const points = [];
  run.grid.forEach((cells, phase) => {
    const measured = cells.filter(run.measured);
    if (measured.length > 0) points.push(Object.assign({ x: run.data.phases[phase].index }, pick(measured)));
  });
  return points;
}

function latencyCard(run) {
  const at = run.at;
  const points = OPERATIONS.map(([name]) => overRanks(run, (cells) => ({
    y: median(cells.map((cell) => cell[at[name + "_p50"]])),
    low: Math.min(...cells.map((cell) => cell[at[name + "_min"]])),
    high: Math.max(...cells.map((cell) => cell[at[name + "_p99"]])) })));
  if (points[0].length === 0) return null;
  const draw = (canvas) => lineChart(canvas, OPERATIONS.flatMap(([, label], i) => bandedLine(label, points[i], i)),
    "phase", "us", { label: (item) => item.dataset.label + ": " + time(item.raw.y) + " (" + time(item.raw.low) + " to " +
      time(item.raw.high) + ")" }, true);
  const table = dataTable("latency", "latency by phase and operation, us: the least, the median of the ranks' p50, the " +
    "worst p99", ["phase"].concat(OPERATIONS.flatMap(([name]) => [name + " min", name + " p50", name + " p99"])),
  () => points[0].map((first, i) => [first.x].concat(points.flatMap((line) => [line[i].low, line[i].y, line[i].high]))));
  return chartCard("Latency by operation", "The line is the median of the ranks' p50; the band goes from the fastest " +
    "operation to the worst rank's p99.", draw, table).section;
}

function bandwidthCard(run) {
  const at = run.at;
  const points = RATES.map(([name]) => overRanks(run, (cells) => {
    const values = cells.map((cell) => cell[at[name]]);
    return { y: Number((values.reduce((a, b) => a + b, 0) / values.length).toPrecision(6)), low: Math.min(...values),
      high: Math.max(...values) };
  }));
  if (points[0].length === 0) return null;
  const draw = (canvas) => lineChart(canvas, RATES.flatMap(([, label], i) => bandedLine(label, points[i], i,
    { borderDash: label.endsWith("wire") ? [6, 4] : [] })), "phase", "GB/s", { label: (item) => item.dataset.label +
    ": " + short(item.raw.y) + " GB/s (" + short(item.raw.low) + " to " + short(item.raw.high) + ")" }, false);
  const table = dataTable("bandwidth", "bandwidth by phase, GB/s: mean over the ranks, least and most",
    ["phase"].concat(RATES.flatMap(([, label]) => [label, "least", "most"])),
    () => points[0].map((first, i) => [first.x].concat(points.flatMap((line) => [line[i].y, line[i].low, line[i].high]))));
  return chartCard("Bandwidth by phase", "Means over the ranks, and a band from the slowest to the fastest. Logical " +
    "counts every (token, expert) selection; wire what left the rank.", draw, table).section;
}

// --- by rank ---

function choice(label, options, first, change) {
  const select = element("select", {}, ...options.map(([value, text]) => element("option", { value: value, text: text })));
  select.value = first;
  select.addEventListener("change", () => change(select.value));
  return element("label", { class: "controls" }, label + " ", select);
}

function rankLatencyCard(run) {
  const at = run.at, phases = run.data.phases;
  const measured = phases.map((phase, p) => p).filter((p) => run.grid[p].some(run.measured));
  if (measured.length === 0) return null;
  let chosen = measured[measured.length - 1];
  const draw = (canvas) => {
    const cells = run.grid[chosen].filter(run.measured);
    const bars = (name, label, i) => [{ label: label, group: i, backgroundColor: withAlpha(colourOf(i), 0.75),
      data: cells.map((cell) => [cell[at[name + "_p50"]], cell[at[name + "_p99"]]]), minBarLength: 2 }];
    return new Chart(canvas, { type: "bar", data: { labels: cells.map((cell) => run.data.ranks[cell[at.rank]]),
      datasets: OPERATIONS.flatMap(([name, label], i) => bars(name, label, i)) }, options: commonOptions({ scales: {
      x: axis("rank"), y: axis("us", { beginAtZero: true }) }, tips: { label: (item) => item.dataset.label + ": p50 " +
      time(item.raw[0]) + ", p99 " + time(item.raw[1]) } }) });
  };
  const controls = choice("Phase", measured.map((p) => [p, String(phases[p].index)]), chosen, (value) => {
    chosen = Number(value);
    card.redraw();
  });
  const card = chartCard("Latency by rank", "Each bar goes from a rank's p50 to its p99. The table has all figures of " +
    "every phase.", draw, rankTable(run), { wide: true, controls: controls });
  return card.section;
}

function heatCard(run) {
  const ranks = run.data.ranks, phases = run.data.phases, at = run.at;
  if (!run.data.cells.some(run.measured)) return null;
  let rate = "gbps";
  const most = () => Math.max(...run.data.cells.map((cell) => run.measured(cell) ? cell[at[rate]] : 0)) || 1;
  const draw = (canvas, figure) => {
    const top = most();
    const value = (phase, rank) => {
      const cell = cellOf(run, phase, rank);
      return run.measured(cell) ? cell[at[rate]] : null;
    };
    return drawGrid(canvas, figure, { columns: phases.length, rows: ranks.length, xTitle: "phase", yTitle: "rank",
      xLabel: phaseLabel(run), yLabel: (i) => String(ranks[i]),
      paint: (phase, rank) => value(phase, rank) === null ? null : heatCell(value(phase, rank), top),
      tip: (phase, rank) => value(phase, rank) === null ? "" : "rank " + ranks[rank] + ", phase " + phases[phase].index +
        "\n" + short(value(phase, rank)) + " GB/s" });
  };
  const controls = choice("Rate", RATES, rate, (value) => {
    rate = value;
    card.redraw();
  });
  const legend = () => [0, 0.25, 0.5, 0.75, 1].map((share) => [heat(share), "", short(share * most()) + " GB/s"]);
  const table = dataTable("heat", "dispatch + combine, logical GB/s of every rank by phase",
    ["rank"].concat(phases.map((phase) => "phase " + phase.index)), () => ranks.map((rank, r) => [rank].concat(
      phases.map((phase, p) => run.measured(cellOf(run, p, r)) ? cellOf(run, p, r)[at.gbps] : null))));
  const card = chartCard("Bandwidth by phase and rank", "Darker (in the dark: lighter) is faster.", draw, table,
    { wide: true, height: gridHeight(ranks.length), controls: controls, legend: legend });
  return card.section;
}

function heatCell(value, top) {
  const share = value / top;
  return { colour: heat(share), mark: short(value), ink: share > 0.55 ? (isDark() ? "#000000" : "#ffffff") :
    (isDark() ? "#e4e8ec" : "#1b2026") };
}

// --- changes ---

const MANY = 60; // phases, from which on bars are too thin to be told apart
const MAX_CHANGES = 400; // bars; of more, each phase has one, of its slowest

function changeCard(run) {
  const steps = [["launch_us", "launch"], ["connect_us", "connect"], ["first_dispatch_us", "until it took effect"],
    ["detect_us", "found by the first survivor"]];
  let shown = run.changes;
  if (shown.length === 0) return null;
  const all = shown.length <= MAX_CHANGES;
  const total = (change) => steps.slice(0, 3).reduce((sum, [name]) => sum + (change[name] || 0), 0);
  if (!all) shown = run.byPhase.filter((list) => list.length > 0).map((list) =>
    list.reduce((slowest, change) => total(change) > total(slowest) ? change : slowest));
  const draw = (canvas) => new Chart(canvas, { type: "bar", data: {
    labels: shown.map((change) => change.phase + ": " + change.rank + " " + change.change),
    datasets: steps.map(([name, label], i) => ({ label: label, stack: name === "detect_us" ? "found" : "steps",
      categoryPercentage: shown.length > MANY ? 1 : 0.8, barPercentage: shown.length > MANY ? 1 : 0.9, backgroundColor: colourOf(i), data: shown.map((change) => change[name] === null ? null : change[name] / 1000) })) },
  options: commonOptions({ scales: { x: axis("phase: rank and change", { stacked: true }), y: axis("ms",
    { stacked: true, beginAtZero: true }) }, tips: { label: (item) => item.dataset.label + ": " + short(item.raw) +
    " ms" } }) });
  return chartCard("What changes cost", "Joins: from the decision to the first line of the rank's process, until it " +
    "was connected, and until its first dispatch had returned. Departures: until they took effect." +
    (all ? "" : " Of each phase the slowest change."), draw, changeTable(run)).section;
}

function stallCard(run) {
  const phases = run.byPhase.map((changes, p) => [p, changes.find((change) => change.longest_stall_us !== null &&
    change.longest_stall_us === largest(changes, "longest_stall_us"))]).filter(([, change]) => change !== undefined);
  if (phases.length === 0) return null;
  const lines = [["longest_stall_us", "longest stall"], ["membership_stall_us", "without joiners' own work"],
    ["median_us", "median operation of that rank"]];
  const many = phases.length > MANY;
  const draw = (canvas) => new Chart(canvas, { type: many ? "line" : "bar", data: {
    labels: phases.map(([p]) => run.data.phases[p].index), datasets: lines.map(([name, label], i) => ({ label: label,
      backgroundColor: colourOf(i), borderColor: colourOf(i), pointRadius: 0, borderWidth: many ? 1.5 : 0,
      data: phases.map(([, change]) => change[name] > 0 ? change[name] : null) })) },
  options: commonOptions({ scales: { x: axis("phase"), y: logAxis("us", short) }, tips: { label: (item) =>
    item.dataset.label + ": " + time(item.raw) } }) });
  const table = dataTable("stalls", "longest stall of a survivor by phase, us", ["phase", "stalled rank"].concat(
    lines.map(([, label]) => label)), () => phases.map(([p, change]) => [run.data.phases[p].index,
    change.stalled_rank].concat(lines.map(([name]) => change[name]))));
  return chartCard("Stalls", "The longest dispatch or combine of a survivor that overlapped the phase's changes.", draw,
    table).section;
}
