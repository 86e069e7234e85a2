// The page of a comparison: a forest plot, and a table of all rows.

const MAX_FOREST = 120;  // rows of the plot; of more rows, the most changed ones

// Names a row by the keys whose values differ between rows.
function rowNames(rows) {
  const varied = variedKeys(rows), several = new Set(rows.map((row) => row.run)).size > 1;
  return (row) => [several ? row.run : "", seriesName(row, varied, ["run"]), row.figure.replaceAll("_", " ")]
                      .filter((word) => word)
                      .join(" \u00b7 ");
}

// The largest change on the axis, in both directions. A single very long interval must not shrink all others to points.
function reachOf(comparison, rows) {
  const known = (values) =>
      values.filter((value) => typeof value === "number" && isFinite(value)).map(Math.abs).sort((a, b) => a - b);
  const changes = known(rows.map((row) => row.change_percent));
  const ends = known(rows.flatMap((row) => [row.low_percent, row.high_percent, row.change_percent]));
  const usual = changes.length > 0 ? changes[Math.floor((changes.length - 1) * 0.9)] : 0;
  return Math.max(1, 1.2 * (comparison.limit_percent || 0), Math.min(1.08 * (ends[ends.length - 1] || 0), 3 * usual));
}

function verdictColour(row) {
  return row.verdict === "worse" ? colours.bad : row.verdict === "better" ? colours.good : colours.muted;
}

function percent(value) {
  return value === null || value === undefined ? NONE : (value > 0 ? "+" : "") + short(value) + " %";
}

// Draws a point with its interval in each row, lines for the limit on both sides, and a line for no change in the
// middle.
const forest = {
  id: "forest",
  beforeDatasetsDraw: (chart, args, options) => {
    const context = chart.ctx, x = chart.scales.x, y = chart.scales.y;
    const line = (from, to, colour, dash, width) => {
      context.save();
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.stroke();
      context.restore();
    };
    const upright = (at, colour, dash) => {
      const place = x.getPixelForValue(at);
      if (at >= x.min && at <= x.max) line([place, y.top], [place, y.bottom], colour, dash, 1.5);
    };
    upright(0, colours.text, []);
    if (options.limit > 0)
      for (const side of [-1, 1]) upright(side * options.limit, colours.muted, [5, 4]);
    for (const point of chart.data.datasets[0].data) {
      const row = point.row, low = row.low_percent, high = row.high_percent;
      if (typeof low !== "number" || typeof high !== "number") continue;
      const at = y.getPixelForValue(point.y), colour = verdictColour(row);
      const end = (value) => x.getPixelForValue(Math.max(x.min, Math.min(x.max, value)));
      line([end(low), at], [end(high), at], colour, [], 2);
      if (low >= x.min)
        line([end(low), at - 4], [end(low), at + 4], colour, [], 2);
      else
        arrow(line, end(low), at, 5, colour);
      if (high <= x.max)
        line([end(high), at - 4], [end(high), at + 4], colour, [], 2);
      else
        arrow(line, end(high), at, -5, colour);
    }
  },
};

// Marks an interval that continues beyond the axis.
function arrow(line, x, y, back, colour) {
  line([x, y], [x + back, y - 4], colour, [], 2);
  line([x, y], [x + back, y + 4], colour, [], 2);
}

function forestCard(comparison, shown) {
  const name = rowNames(comparison.rows), reach = reachOf(comparison, shown);
  const points = shown.map((row, i) => ({x: Math.max(-reach, Math.min(reach, row.change_percent)), y: i, row: row}));
  const draw = (canvas) => new Chart(canvas, {
    type: "scatter",
    plugins: [forest],
    data: {
      datasets: [{
        data: points,
        parsing: false,
        pointRadius: 5,
        pointStyle: shown.map((row) => row.significant ? "rect" : "circle"),
        pointBackgroundColor: shown.map((row) => row.significant ? verdictColour(row) : colours.panel),
        pointBorderColor: shown.map(verdictColour),
        pointBorderWidth: 2
      }]
    },
    options: commonOptions({
      axis: "y",
      legend: false,
      scales: {
        x: axis("change in percent", {type: "linear", min: -reach, max: reach, ticks: {includeBounds: false}}),
        y: {
          type: "linear",
          min: -0.7,
          max: shown.length - 0.3,
          reverse: true,
          grid: {display: false},
          afterBuildTicks: (scale) => {
            scale.ticks = shown.map((row, i) => ({value: i}));
          },
          ticks: {
            autoSkip: false,
            callback: function(value) {
              return shown[value] ? shortLabel(name(shown[value]), this.chart.width) : "";
            }
          }
        }
      },
      tips: {label: (item) => forestTips(item.raw.row, name)}
    })
  });
  const chart = chartCard(
      "Change of each figure",
      "The mark is the change, the line its confidence interval: a filled " +
          "square is more than noise, an open circle is not, or has no interval." +
          (comparison.limit_percent > 0 ? " Dashed: the limit of " + short(comparison.limit_percent) + " %." : "") +
          (shown.length < comparison.rows.length
               ? " The " + shown.length + " most changed of " + comparison.rows.length + " rows; the table has all."
               : ""),
      (canvas) => drawForest(draw, comparison, canvas), comparisonTable(comparison), {
        wide: true,
        height: 90 + 22 * shown.length,
        legend: () => [
            [colours.bad, "", "worse"], [colours.good, "", "better"],
            [colours.muted, "", "no more than noise, or no interval"]]
      });
  return chart.section;
}

function drawForest(draw, comparison, canvas) {
  const chart = draw(canvas);
  chart.options.plugins.forest = {limit: comparison.limit_percent};
  chart.update();
  return chart;
}

function forestTips(row, name) {
  return [
    name(row), percent(row.change_percent) + " (" + percent(row.low_percent) + " to " + percent(row.high_percent) + ")",
    quantity(row.baseline, row.unit) + " \u2192 " + quantity(row.value, row.unit),
    row.verdict === "unknown" ? "no interval" : row.verdict + (row.significant ? "" : ", no more than noise")
  ];
}

function comparisonTable(comparison) {
  const columns = [
    {name: "run", text: true}, {name: "what", text: true}, {name: "figure", text: true}, {name: "unit", text: true},
    "baseline", "value", "change %", "low %", "high %", {name: "significant", text: true}, {name: "verdict", text: true}
  ];
  return dataTable(
      "changes", "every row of the comparison", columns,
      () => comparison.rows.map(
          (row) =>
              [row.run, Object.entries(row.keys).map(([name, value]) => keyText(name, value)).join(" \u00b7 "),
               row.figure, row.unit, row.baseline, row.value, row.change_percent, row.low_percent, row.high_percent,
               wordOf(row.significant), row.verdict]));
}

function onlyInTable(comparison) {
  const only = comparison.only_in || [];
  return only.length === 0
      ? null
      : dataTable(
            "only", "rows that only one run has", [{name: "run", text: true}, {name: "what", text: true}],
            () => only.map(
                (one) =>
                    [one.run,
                     Object.entries(one.keys || {}).map(([name, value]) => keyText(name, value)).join(" \u00b7 ")]));
}

function showComparison(data, page) {
  const comparison = data.comparison, rows = comparison.rows || [];
  comparison.rows = rows;
  const size = (row) => Math.abs(row.change_percent || 0);
  const kept = new Set(rows.slice().sort((a, b) => size(b) - size(a)).slice(0, MAX_FOREST));
  const shown = rows.filter((row) => kept.has(row) && typeof row.change_percent === "number");
  const limited = typeof comparison.limit_percent === "number";
  const bad = limited ? comparison.beyond_limit > 0 : comparison.verdict === "worse";
  page.append(element(
      "section", {}, element("p", {
        class: bad ? "bad" : comparison.verdict === "unknown" ? "" : "good",
        id: "verdict",
        text: comparison.verdict +
            (limited ? ": " + plain(comparison.beyond_limit) + " beyond the limit of " +
                     short(comparison.limit_percent) + " %"
                                          : "")
      }),
      facts(
          (comparison.runs || []).map((run, i) => [i === 0 ? run.label + " (baseline)" : run.label, [
                                        run.path, run.format, run.repeats === undefined ? "" : run.repeats + " repeats"
                                      ].filter((word) => word).join(", ")]))));
  if (shown.length > 0) page.append(forestCard(comparison, shown));
  const only = onlyInTable(comparison);
  if (only) page.append(element("section", {}, element("h2", {text: "Not compared"}), only));
}
