// Rows of pairs, which have the keys "from" and "to", become a matrix of senders and receivers for each pattern.

function isPair(row) {
  return typeof row.keys.from === "number" && typeof row.keys.to === "number";
}

// Groups pairs by their other keys.
function groupPairs(rows) {
  const groups = new Map();
  for (const row of rows) {
    const name = Object.entries(row.keys)
                     .filter(([key]) => !["from", "to", "bytes", "pieces"].includes(key))
                     .map(([key, value]) => keyText(key, value))
                     .join(" \u00b7 ");
    groups.set(name, (groups.get(name) || []).concat([row]));
  }
  return groups;
}

// The quantities that a matrix can show for its pairs: each figure, and their bytes.
function pairMeasures(rows) {
  const measures = figureNames(rows).map((name) => ({
                                           name: name,
                                           of: (row) => {
                                             const figure = figureOf(row, name);
                                             return figure ? {value: figure.y, unit: figure.unit} : null;
                                           }
                                         }));
  if (rows.every((row) => typeof row.keys.bytes === "number"))
    measures.unshift({name: "bytes", of: (row) => ({value: row.keys.bytes, unit: "bytes"})});
  return measures;
}

function matrixCard(name, rows, index) {
  const measures = pairMeasures(rows);
  if (measures.length === 0) return null;
  let measure = measures.find((one) => one.name === "bandwidth") || measures[0];
  const size = 1 + Math.max(...rows.map((row) => Math.max(row.keys.from, row.keys.to)));
  const cells = new Map(rows.map((row) => [row.keys.from + " " + row.keys.to, row]));
  const most = () => Math.max(...rows.map((row) => (measure.of(row) || {value: 0}).value || 0)) || 1;
  const found = (to, from) => {
    const row = cells.get(from + " " + to);
    return row ? measure.of(row) : null;
  };
  const draw = (canvas, figure) => {
    const top = most();
    return drawGrid(canvas, figure, {
      columns: size,
      rows: size,
      xTitle: "receiver",
      yTitle: "sender",
      xLabel: String,
      yLabel: String,
      paint: (to, from) => found(to, from)
          ? Object.assign(
                heatCell(found(to, from).value, top), {mark: quantity(found(to, from).value, found(to, from).unit)})
          : null,
      tip: (to, from) =>
          found(to, from) ? from + " to " + to + "\n" + quantity(found(to, from).value, found(to, from).unit) : ""
    });
  };
  const controls = choice("Figure", measures.map((one) => [one.name, capital(one.name)]), measure.name, (value) => {
    measure = measures.find((one) => one.name === value);
    card.redraw();
  });
  const unit = () => (rows.map((row) => measure.of(row)).find((one) => one) || {unit: ""}).unit;
  const legend = () => [0, 0.25, 0.5, 0.75, 1].map((share) => [heat(share), "", quantity(share * most(), unit())]);
  const table = dataTable(
      "matrix-" + index, "pairs of " + name, ["from", "to"].concat(measures.map((one) => one.name)),
      () => rows.map((row) => [row.keys.from, row.keys.to].concat(measures.map((one) => (one.of(row) || {}).value))));
  const card = chartCard(
      "Traffic matrix: " + name, "Who sent to whom; of a figure with percentiles the p50.", draw, table,
      {height: gridHeight(size), controls: controls, legend: legend});
  return card.section;
}

function matrixCards(rows) {
  return Array.from(groupPairs(rows.filter(isPair)))
      .map(([name, list], i) => matrixCard(name || "all pairs", list, i))
      .filter((card) => card);
}
