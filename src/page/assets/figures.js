// The page of one or several benchmarks: their common facts, and the choice of line charts and bar charts.

// Keys for the x axis: the chart uses the first of them that has several values.
const X_KEYS = ["bytes", "tokens", "batch", "depth", "threads", "ranks", "hidden", "topk", "senders"];
const MAX_SERIES = 8;  // of one chart; if there are more, each value of a key gets a chart of its own

function keyText(name, value) {
  if (typeof value === "boolean") return (value ? "" : "no ") + name;
  if (name === "bytes" || name === "block_bytes") return bytes(value);
  return typeof value === "number" ? name + " " + value : String(value);
}

// The rows of all runs of a kind; if there are several runs, each row has its run's label as a key. Repeats of one
// measurement are joined.
function gatherRows(runs) {
  const found = new Map();
  for (const run of runs) {
    for (const row of run.figures.rows) {
      const keys = Object.assign(runs.length > 1 ? {run: run.label} : {}, row.keys);
      const name = JSON.stringify(Object.entries(keys).sort());
      if (!found.has(name)) found.set(name, {keys: keys, repeats: [], refused: []});
      (row.refused ? found.get(name).refused : found.get(name).repeats).push(row);
    }
  }
  return Array.from(found.values());
}

// The keys that have several values, and these values, in the order of their first occurrence.
function variedKeys(rows) {
  const values = new Map();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row.keys)) {
      if (!values.has(name)) values.set(name, new Set());
      values.get(name).add(value);
    }
  }
  const missing = (name) => rows.some((row) => !(name in row.keys));
  return Array.from(values)
      .filter(([name, set]) => set.size > 1 || missing(name))
      .map(([name, set]) => ({name: name, values: Array.from(set)}));
}

function isNumeric(rows, name) {
  return rows.every((row) => typeof row.keys[name] === "number");
}

function seriesName(row, varied, without) {
  return varied.filter((key) => !without.includes(key.name) && key.name in row.keys)
      .map((key) => keyText(key.name, row.keys[key.name]))
      .join(" \u00b7 ");
}

// One figure of a row over its repeats: the medians of the percentiles, the least minimum and the largest maximum.
function figureOf(row, name) {
  const all = row.repeats.map((repeat) => repeat.figures.find((figure) => figure.name === name)).filter((one) => one);
  if (all.length === 0) return null;
  const middle = (member) => median(all.map((figure) => figure[member]).filter((value) => value !== null));
  const values = all.map((figure) => figure.value);
  const spread = all[0].count > 0;
  const mins = all.map((figure) => figure.min).filter((value) => value !== null);
  const maxs = all.map((figure) => figure.max).filter((value) => value !== null);
  return {
    name: name,
    unit: all[0].unit,
    better: all[0].better,
    repeats: all.length,
    spread: spread,
    value: middle("value"),
    y: spread ? middle("p50") : middle("value"),
    low: spread          ? Math.min(...mins)
        : all.length > 1 ? Math.min(...values)
                         : null,
    high: spread         ? middle("p99")
        : all.length > 1 ? Math.max(...values)
                         : null,
    p50: middle("p50"),
    p95: middle("p95"),
    p99: middle("p99"),
    p999: middle("p999"),
    max: maxs.length > 0 ? Math.max(...maxs) : null,
    bound: middle("bound"),
    bound_name: all[0].bound_name
  };
}

// These figures come first, if they exist; the others follow in the order of their first occurrence.
const FIRST_FIGURES = ["latency", "bandwidth", "logical_bandwidth", "wire_bandwidth", "messages"];

function figureNames(rows) {
  const names = [];
  for (const row of rows)
    for (const repeat of row.repeats)
      for (const figure of repeat.figures)
        if (!names.includes(figure.name)) names.push(figure.name);
  return FIRST_FIGURES.filter((name) => names.includes(name))
      .concat(names.filter((name) => !FIRST_FIGURES.includes(name)));
}

// Divides the rows into groups with few enough lines for one chart: [title, rows].
function splitRows(rows, varied, x) {
  const others = varied.filter((key) => key.name !== x);
  const count = new Set(rows.map((row) => seriesName(row, others, []))).size;
  const split = others.filter((key) => key.name !== "run").sort((a, b) => a.values.length - b.values.length)[0];
  if (count <= MAX_SERIES || !split) return [["", rows]];
  const groups = new Map();
  for (const row of rows) {
    const name = split.name in row.keys ? keyText(split.name, row.keys[split.name]) : "no " + split.name;
    groups.set(name, (groups.get(name) || []).concat([row]));
  }
  return Array.from(groups).flatMap(
      ([name, part]) => splitRows(part, others.filter((key) => key !== split), x)
                            .map(([more, list]) => [more ? name + " \u00b7 " + more : name, list]));
}

// --- texts and tables ---

function describeFigures(run, several) {
  const figures = run.figures;
  const ended = figures.cut_short ? "Cut short by " + figures.cut_short
      : !figures.passed           ? "Failed" + (figures.error ? ": " + figures.error : "")
      : !figures.complete         ? "Cut short"
                                  : "Complete";
  return element(
      "section", {}, several ? element("h2", {text: run.label}) : null,
      element("p", {class: figures.passed && figures.complete ? "good verdict" : "bad verdict", text: ended}), facts([
        ["kind", figures.kind], ["started", figures.started], ["took", short(figures.elapsed_s) + " s"],
        ["hosts", Array.from(new Set(figures.hosts)).join(", ")], ["rows", figures.rows.length],
        ["weft", figures.version]
      ]),
      element("details", {}, element("summary", {text: "Settings"}), facts(Object.entries(figures.settings))));
}

function refusedSection(runs) {
  const refused = runs.flatMap(
      (run) => run.figures.rows.filter((row) => row.refused)
                   .map(
                       (row) =>
                           [run.label,
                            Object.entries(row.keys).map(([name, value]) => keyText(name, value)).join(" \u00b7 "),
                            row.refused]));
  if (refused.length === 0) return null;
  const list = element(
      "ul", {id: "refused"},
      ...refused.map(
          ([label, keys, why]) => element("li", {text: (runs.length > 1 ? label + ": " : "") + keys + ": " + why})));
  return element(
      "section", {}, element("h2", {class: "bad", text: "Figures that are not to be believed"}),
      element("p", {text: "They are in the table, and in no chart."}), list);
}

const FIGURE_MEMBERS = ["value", "count", "min", "p50", "p95", "p99", "p999", "max", "bound"];

function figuresTable(runs, rows, kind) {
  const names = Array.from(new Set(rows.flatMap((row) => Object.keys(row.keys)))).filter((name) => name !== "run");
  const columns = [{name: "run", text: true}].concat(
      names.map((name) => ({name: name, text: !isNumeric(rows, name)})),
      ["repeat", {name: "figure", text: true}, {name: "unit", text: true}], FIGURE_MEMBERS,
      ["% of the bound", {name: "bound by", text: true}, {name: "slowest", text: true}, {name: "refused", text: true}]);
  return dataTable(
      "figures-" + kind, "every figure of " + kind, columns,
      () => runs.flatMap(
          (run) => run.figures.rows.flatMap(
              (row) => row.figures.map(
                  (figure) => [run.label].concat(
                      names.map((name) => row.keys[name] === undefined ? "" : wordOf(row.keys[name])),
                      [row.run, figure.name, figure.unit], FIGURE_MEMBERS.map((member) => figure[member]), [
                        figure.bound > 0 && figure.value !== null
                            ? Number((100 * figure.value / figure.bound).toPrecision(4))
                            : null,
                        figure.bound_name, row.slowest, row.refused
                      ])))));
}

function boundsTable(runs) {
  const rows = runs.flatMap(
      (run) => run.figures.bounds.map(
          (bound) => [run.label, bound.name, bound.value, bound.measured ? "measured" : "described", bound.detail]));
  return rows.length === 0 ? null
                           : dataTable(
                                 "bounds", "what the hardware allows, GB/s",
                                 [
                                   {name: "run", text: true}, {name: "bound", text: true}, "GB/s",
                                   {name: "how", text: true}, {name: "detail", text: true}
                                 ],
                                 () => rows);
}

// Makes charts of rows of the same kind: lines against a size, or bars.
function figureCards(rows, kind, title) {
  const varied = variedKeys(rows);
  const x = ["ep", "traffic", "limits"].includes(kind)
      ? undefined
      : X_KEYS.find((name) => varied.some((key) => key.name === name) && isNumeric(rows, name));
  return figureNames(rows)
      .flatMap((name) => splitRows(rows, varied, x || "op").map(([part, list]) => {
        const where = [title, part].filter((word) => word).join(", ");
        return x ? lineCard(list, varied, x, name, where) : barCard(list, varied, name, where);
      }))
      .filter((card) => card);
}

// Traffic has rows of patterns, of each worker in them (with a "rank"), and of each pair ("from" and "to").
function showKind(runs, kind, page) {
  const rows = gatherRows(runs), shown = rows.filter((row) => row.repeats.length > 0);
  const whole = shown.filter((row) => !isPair(row) && !("rank" in row.keys));
  const workers = shown.filter((row) => !isPair(row) && "rank" in row.keys);
  page.append(
      element(
          "div", {class: "charts figures"}, ...figureCards(whole, kind, ""), ...matrixCards(shown),
          ...figureCards(workers, kind, whole.length > 0 ? "by rank" : "")),
      element("section", {}, element("h2", {text: "All figures of " + kind}), figuresTable(runs, rows, kind)));
}

function showFigures(data, page) {
  const runs = data.runs, kinds = Array.from(new Set(runs.map((run) => run.figures.kind)));
  page.append(element("div", {class: "charts"}, ...runs.map((run) => describeFigures(run, runs.length > 1))));
  const refused = refusedSection(runs), bounds = boundsTable(runs);
  if (refused) page.append(refused);
  for (const kind of kinds) showKind(runs.filter((run) => run.figures.kind === kind), kind, page);
  if (bounds) page.append(element("section", {}, element("h2", {text: "Bounds"}), bounds));
}
