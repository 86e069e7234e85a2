// The charts of an elastic run.

const OPERATIONS = [["both", "dispatch + combine"], ["dispatch", "dispatch"], ["combine", "combine"]];
const RATES = [
  ["gbps", "dispatch + combine, logical"], ["dispatch_logical_gbps", "dispatch, logical"],
  ["dispatch_wire_gbps", "dispatch, wire"], ["combine_logical_gbps", "combine, logical"],
  ["combine_wire_gbps", "combine, wire"]
];
const MARKS = {
  join: "\u25b8",
  leave: "\u25c2",
  kill: "\u2715",
  failed: "!",
  interrupted: "?"
};

function phaseLabel(run) {
  return (i) => String(run.data.phases[i] ? run.data.phases[i].index : "");
}

function gridHeight(rows) {
  return Math.max(220, Math.min(rows * 20, 920) + 70);
}

// --- lines by phase ---

function lineChart(canvas, datasets, xTitle, yTitle, tips, log) {
  return new Chart(canvas, {
    type: "line",
    data: {datasets: datasets},
    options: commonOptions({
      tips: tips,
      scales: {
        x: axis(xTitle, {type: "linear", ticks: {precision: 0}}),
        y: log ? logAxis(yTitle, short) : axis(yTitle, {type: "linear", beginAtZero: true})
      }
    })
  });
}

// One point for each phase, computed from the ranks that were measured: {x, y, low, high}.
function overRanks(run, pick) {
  const points = [];
  run.grid.forEach((cells, phase) => {
    const measured = cells.filter(run.measured);
    if (measured.length > 0) points.push(Object.assign({x: run.data.phases[phase].index}, pick(measured)));
  });
  return points;
}

function latencyCard(run) {
  const at = run.at;
  const points =
      OPERATIONS.map(([name]) => overRanks(run, (cells) => ({
                                                  y: median(cells.map((cell) => cell[at[name + "_p50"]])),
                                                  low: Math.min(...cells.map((cell) => cell[at[name + "_min"]])),
                                                  high: Math.max(...cells.map((cell) => cell[at[name + "_p99"]]))
                                                })));
  if (points[0].length === 0) return null;
  const draw = (canvas) => lineChart(
      canvas, OPERATIONS.flatMap(([, label], i) => bandedLine(label, points[i], i)), "phase", "us", {
        label: (item) => item.dataset.label + ": " + time(item.raw.y) + " (" + time(item.raw.low) + " to " +
            time(item.raw.high) + ")"
      },
      true);
  const table = dataTable(
      "latency",
      "latency by phase and operation, us: the least, the median of the ranks' p50, the " +
          "worst p99",
      ["phase"].concat(OPERATIONS.flatMap(([name]) => [name + " min", name + " p50", name + " p99"])),
      () => points[0].map(
          (first, i) => [first.x].concat(points.flatMap((line) => [line[i].low, line[i].y, line[i].high]))));
  return chartCard(
             "Latency by operation",
             "The line is the median of the ranks' p50; the band goes from the fastest " +
                 "operation to the worst rank's p99.",
             draw, table)
      .section;
}

function bandwidthCard(run) {
  const at = run.at;
  const points = RATES.map(([name]) => overRanks(run, (cells) => {
                             const values = cells.map((cell) => cell[at[name]]);
                             return {
                               y: Number((values.reduce((a, b) => a + b, 0) / values.length).toPrecision(6)),
                               low: Math.min(...values),
                               high: Math.max(...values)
                             };
                           }));
  if (points[0].length === 0) return null;
  const draw = (canvas) => lineChart(
      canvas,
      RATES.flatMap(
          ([, label], i) => bandedLine(label, points[i], i, {borderDash: label.endsWith("wire") ? [6, 4] : []})),
      "phase", "GB/s", {
        label: (item) => item.dataset.label + ": " + short(item.raw.y) + " GB/s (" + short(item.raw.low) + " to " +
            short(item.raw.high) + ")"
      },
      false);
  const table = dataTable(
      "bandwidth", "bandwidth by phase, GB/s: mean over the ranks, least and most",
      ["phase"].concat(RATES.flatMap(([, label]) => [label, "least", "most"])),
      () => points[0].map(
          (first, i) => [first.x].concat(points.flatMap((line) => [line[i].y, line[i].low, line[i].high]))));
  return chartCard(
             "Bandwidth by phase",
             "Means over the ranks, and a band from the slowest to the fastest. Logical " +
                 "counts every (token, expert) selection; wire what left the rank.",
             draw, table)
      .section;
}

// --- by rank ---

function choice(label, options, first, change) {
  const select =
      element("select", {}, ...options.map(([value, text]) => element("option", {value: value, text: text})));
  select.value = first;
  select.addEventListener("change", () => change(select.value));
  return element("label", {class: "controls"}, label + " ", select);
}

function rankLatencyCard(run) {
  const at = run.at, phases = run.data.phases;
  const measured = phases.map((phase, p) => p).filter((p) => run.grid[p].some(run.measured));
  if (measured.length === 0) return null;
  let chosen = measured[measured.length - 1];
  const draw = (canvas) => {
    const cells = run.grid[chosen].filter(run.measured);
    const bars = (name, label, i) => [{
      label: label,
      group: i,
      backgroundColor: withAlpha(colourOf(i), 0.75),
      data: cells.map((cell) => [cell[at[name + "_p50"]], cell[at[name + "_p99"]]]),
      minBarLength: 2
    }];
    return new Chart(canvas, {
      type: "bar",
      data: {
        labels: cells.map((cell) => run.data.ranks[cell[at.rank]]),
        datasets: OPERATIONS.flatMap(([name, label], i) => bars(name, label, i))
      },
      options: commonOptions({
        scales: {x: axis("rank"), y: axis("us", {beginAtZero: true})},
        tips: {label: (item) => item.dataset.label + ": p50 " + time(item.raw[0]) + ", p99 " + time(item.raw[1])}
      })
    });
  };
  const controls = choice("Phase", measured.map((p) => [p, String(phases[p].index)]), chosen, (value) => {
    chosen = Number(value);
    card.redraw();
  });
  const card = chartCard(
      "Latency by rank",
      "Each bar goes from a rank's p50 to its p99. The table has all figures of " +
          "every phase.",
      draw, rankTable(run), {wide: true, controls: controls});
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
    return drawGrid(canvas, figure, {
      columns: phases.length,
      rows: ranks.length,
      xTitle: "phase",
      yTitle: "rank",
      xLabel: phaseLabel(run),
      yLabel: (i) => String(ranks[i]),
      paint: (phase, rank) => value(phase, rank) === null ? null : heatCell(value(phase, rank), top),
      tip: (phase, rank) => value(phase, rank) === null
          ? ""
          : "rank " + ranks[rank] + ", phase " + phases[phase].index + "\n" + short(value(phase, rank)) + " GB/s"
    });
  };
  const controls = choice("Rate", RATES, rate, (value) => {
    rate = value;
    card.redraw();
  });
  const legend = () => [0, 0.25, 0.5, 0.75, 1].map((share) => [heat(share), "", short(share * most()) + " GB/s"]);
  const table = dataTable(
      "heat", "dispatch + combine, logical GB/s of every rank by phase",
      ["rank"].concat(phases.map((phase) => "phase " + phase.index)),
      () => ranks.map(
          (rank, r) => [rank].concat(
              phases.map((phase, p) => run.measured(cellOf(run, p, r)) ? cellOf(run, p, r)[at.gbps] : null))));
  const card = chartCard(
      "Bandwidth by phase and rank", "Darker (in the dark: lighter) is faster.", draw, table,
      {wide: true, height: gridHeight(ranks.length), controls: controls, legend: legend});
  return card.section;
}

// The colour of text on such a cell.
function heatInk(share) {
  const strong = share > 0.55;
  return strong === isDark() ? "#1b2026" : "#ffffff";
}

function heatCell(value, top) {
  return {colour: heat(value / top), mark: short(value), ink: heatInk(value / top)};
}
