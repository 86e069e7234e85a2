// Charts of the figures of benchmarks: lines against a size, and bars for each point.

function capital(text) {
  const words = text.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function cardTitle(name, part, x) {
  return capital(name) + (x ? " against " + (x === "bytes" ? "size" : x) : "") + (part ? ": " + part : "");
}

function figureTips(figure, prefix) {
  const lines = [prefix + quantity(figure.y, figure.unit)];
  if (figure.spread)
    lines.push(
        ...["p95", "p99", "p999", "max"]
            .filter((member) => figure[member] !== null)
            .map((member) => (member === "p999" ? "p99.9" : member) + " " + quantity(figure[member], figure.unit)));
  if (figure.repeats > 1) lines.push(figure.repeats + " repeats");
  if (figure.bound !== null) lines.push("bound " + quantity(figure.bound, figure.unit) + ", " + figure.bound_name);
  return lines;
}

// --- lines ---

function seriesOf(rows, varied, x, name) {
  const series = new Map();
  for (const row of rows) {
    const figure = figureOf(row, name);
    if (!figure || figure.y === null) continue;
    const label = seriesName(row, varied, [x]) || capital(name);
    if (!series.has(label)) series.set(label, []);
    series.get(label).push(Object.assign({x: row.keys[x]}, figure));
  }
  for (const points of series.values()) points.sort((a, b) => a.x - b.x);
  return series;
}

// Each bound of the hardware becomes one line, for all transports and runs that it bounds.
function boundLines(series) {
  const lines = new Map();
  for (const points of series.values()) {
    for (const point of points) {
      if (point.bound === null) continue;
      if (!lines.has(point.bound_name)) lines.set(point.bound_name, new Map());
      const line = lines.get(point.bound_name);
      line.set(point.x, Math.max(point.bound, line.get(point.x) || 0));
    }
  }
  return Array.from(lines).map(
      ([name, line]) => ({
        label: "bound: " + (name || "hardware"),
        parsing: false,
        data: Array.from(line).sort((a, b) => a[0] - b[0]).map(([x, y]) => ({x: x, y: y, isBound: true})),
        borderColor: colours.bound,
        backgroundColor: colours.bound,
        borderDash: [7, 5],
        borderWidth: 1.5,
        pointRadius: 0,
        pointStyle: "line"
      }));
}

function lineCard(rows, varied, x, name, part) {
  const series = seriesOf(rows, varied, x, name);
  const points = Array.from(series.values()).flat();
  if (points.length === 0) return null;
  const unit = points[0].unit, sizes = points.map((point) => point.x);
  const positive = unit !== "percent" && points.every((point) => point.y > 0 && (point.low === null || point.low >= 0));
  // Without a line of at least two points there is no sweep, so the chart has bars.
  if (!Array.from(series.values()).some((list) => list.length > 1)) return barCard(rows, varied, name, part);
  // A logarithmic axis has no zero, so the lower edge of a band is at least a tenth of the least value.
  const least = Math.min(...points.map((point) => point.y));
  const onAxis = (list) => list.map(
      (point) => Object.assign(
          {}, point, {low: positive && point.low !== null ? Math.max(point.low, least / 10) : point.low}));
  const draw = (canvas) => new Chart(canvas, {
    type: "line",
    data: {
      datasets: Array.from(series)
                    .flatMap(([label, list], i) => bandedLine(label, onAxis(list), i))
                    .concat(boundLines(series))
    },
    options: commonOptions({
      scales: {
        x: sizes.every((size) => size > 0) ? valueAxis(x, sizes, x === "bytes" ? bytes : short)
                                           : axis(x, {type: "linear"}),
        y: positive ? logAxis(unit, short) : axis(unit, {type: "linear", beginAtZero: true})
      },
      tips: {
        title: (items) => items.length > 0 ? keyText(x, items[0].raw.x) : "",
        label: (item) => item.raw.isBound ? item.dataset.label + ": " + quantity(item.raw.y, unit)
                                          : figureTips(item.raw, item.dataset.label + ": ")
      }
    })
  });
  const spread = points.some((point) => point.spread), again = points.some((point) => point.repeats > 1);
  const note = (spread ? "The line is p50; the band goes from the minimum to p99." : "") +
      (again ? " Of repeats, the " +
               "median" + (spread ? "." : ", and a band from the least to the most.")
             : "") +
      (points.some((point) => point.bound !== null) ? " Dashed: what the hardware allows." : "");
  const members = ["y", "low", "high", "p95", "p99", "p999", "max", "bound"];
  const table = dataTable(
      "chart-" + name + (part ? "-" + part : ""), name + ", " + unit,
      [{name: "series", text: true}, x].concat(
          spread ? ["p50", "min"] : ["value", "least"], spread ? ["p99"] : ["most"], members.slice(3)),
      () => Array.from(series).flatMap(
          ([label, list]) => list.map((point) => [label, point.x].concat(members.map((member) => point[member])))));
  return chartCard(cardTitle(name, part, x), note.trim() || "In " + unit + ".", draw, table, {height: 360}).section;
}

// --- bars ---

// Paints onto the bars: a thin line from p50 to p99, and a stroke across for the bound.
const whiskers = {
  id: "whiskers",
  afterDatasetsDraw: (chart) => {
    const context = chart.ctx;
    chart.data.datasets.forEach((dataset, d) => {
      if (!chart.isDatasetVisible(d) || !dataset.figures) return;
      chart.getDatasetMeta(d).data.forEach((bar, i) => {
        const figure = dataset.figures[i];
        if (figure) paintWhisker(context, chart.scales.x, bar, figure);
      });
    });
  },
};

function paintWhisker(context, scale, bar, figure) {
  const half = Math.max(3, bar.height / 2);
  const stroke = (from, to, top, bottom, colour, dash) => {
    context.save();
    context.strokeStyle = colour;
    context.setLineDash(dash);
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(scale.getPixelForValue(from), top);
    context.lineTo(scale.getPixelForValue(to), bottom);
    context.stroke();
    context.restore();
  };
  if (figure.high !== null) {
    stroke(figure.y, figure.high, bar.y, bar.y, colours.text, []);
    stroke(figure.high, figure.high, bar.y - half / 2, bar.y + half / 2, colours.text, []);
  }
  if (figure.bound !== null && figure.bound <= scale.max)
    stroke(figure.bound, figure.bound, bar.y - half - 2, bar.y + half + 2, colours.bad, [3, 2]);
}

const MAX_LABEL = 46;

function barCard(rows, varied, name, part) {
  const categories = [], groups = new Map(), seen = new Map();
  for (const row of rows) {
    const figure = figureOf(row, name);
    if (!figure || figure.y === null) continue;
    const label = seriesName(row, varied, ["op"]) || capital(name),
          group = row.keys.op === undefined ? "" : String(row.keys.op);
    if (!seen.has(label)) seen.set(label, categories.push(label) - 1);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group)[seen.get(label)] = figure;
  }
  if (categories.length === 0) return null;
  const all = Array.from(groups.values()).flat().filter((figure) => figure), unit = all[0].unit;
  const top = Math.max(...all.map((figure) => Math.max(figure.y, figure.high === null ? 0 : figure.high)));
  const near = all.map((figure) => figure.bound).filter((bound) => bound !== null && bound <= 3 * top);
  const draw = (canvas) => new Chart(canvas, {
    type: "bar",
    plugins: [whiskers],
    data: {
      labels: categories.map((label) => label.length > MAX_LABEL ? label.slice(0, MAX_LABEL - 1) + "\u2026" : label),
      datasets: Array.from(groups).map(([group, figures], i) => ({
                                         label: group || capital(name),
                                         figures: figures,
                                         data: categories.map((label, at) => figures[at] ? figures[at].y : null),
                                         backgroundColor: withAlpha(colourOf(i), 0.8),
                                         maxBarThickness: 26
                                       }))
    },
    options: commonOptions({
      axis: "y",
      indexAxis: "y",
      legend: groups.size > 1,
      scales: {
        x: axis(unit, {
          ticks: unit === "bytes" ? {callback: bytes} : {},
          beginAtZero: true,
          suggestedMax: Math.max(top, ...near) * 1.03
        }),
        y: {
          grid: {display: false},
          ticks: {
            autoSkip: false,
            callback: function(value) {
              return shortLabel(this.getLabelForValue(value), this.chart.width);
            }
          }
        }
      },
      tips: {
        title: (items) => items.length > 0 ? categories[items[0].dataIndex] : "",
        label: (item) => figureTips(item.dataset.figures[item.dataIndex], item.dataset.label + ": ")
      }
    })
  });
  const members = ["y", "low", "p95", "p99", "p999", "max", "bound"];
  const table = dataTable(
      "chart-" + name + (part ? "-" + part : ""), name + ", " + unit,
      [
        {name: "point", text: true}, {name: "op", text: true}, all.some((figure) => figure.spread) ? "p50" : "value",
        "min"
      ].concat(members.slice(2)),
      () => Array.from(groups).flatMap(
          ([group, figures]) => categories.map((label, at) => [label, group, figures[at]])
                                    .filter(([, , figure]) => figure)
                                    .map(([label, , figure]) => [label, group].concat(members.map((m) => figure[m])))));
  const note = (all.some((figure) => figure.spread) ? "Bars are p50, thin lines go on to p99." : "In " + unit + ".") +
      (near.length > 0 ? " Dashed strokes: what the hardware allows." : "");
  return chartCard(
             cardTitle(name, part, ""), note, draw, table,
             {height: Math.max(160, 90 + categories.length * Math.min(34, 12 + 12 * groups.size))})
      .section;
}

// Shortens labels on a narrow page, so that the bars have enough room.
function shortLabel(label, width) {
  const most = Math.max(12, Math.floor(width / 16));
  return label.length > most ? label.slice(0, most - 1) + "\u2026" : label;
}
