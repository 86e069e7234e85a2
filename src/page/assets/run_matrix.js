// The traffic matrix of an elastic run: the rows of dispatches, by sender and receiver.

// Reads the numbers in one text of the document's matrices (src/page/documents.h). Each character of a number counts 16
// times as much as the one before it; the first character below `final` ends the number.
function readNumbers(text, places, final) {
  const numbers = [];
  let number = 0, weight = 1;
  for (const character of text) {
    const digit = places.get(character);
    number += digit * weight;
    weight *= 16;
    if (digit >= final) continue;
    numbers.push(number);
    number = 0;
    weight = 1;
  }
  return numbers;
}

// Arranges the counts for each rank by phase, then by sender.
function readMatrices(traffic) {
  const places = new Map(Array.from(traffic.alphabet, (character, i) => [character, i]));
  const phases = new Map();
  for (const matrix of traffic.matrices) {
    const senders = new Map();
    matrix.rows.forEach((text, i) => {
      const [least, ...more] = readNumbers(text, places, traffic.final);
      senders.set(matrix.senders[i], more.map((value) => value === 0 ? 0 : value + least - 1));
    });
    phases.set(matrix.phase, senders);
  }
  return phases;
}

function trafficNote(run) {
  const left = run.data.traffic.measured - run.data.traffic.matrices.length;
  return "Rows of one dispatch, means over the timed ones: one row for each token and each rank that has any of its " +
      "experts, as the sender's own routing has it. On the diagonal those that stay; a combine sends as many back." +
      (left === 0 ? ""
                  : " Of " + run.data.traffic.measured + " phases this page has the matrices of " +
               run.data.traffic.matrices.length + "; results.json has all.");
}

function trafficCard(run) {
  const matrices = readMatrices(run.data.traffic), ranks = run.data.ranks, at = run.at;
  if (matrices.size === 0) return null;
  const phases = Array.from(matrices.keys());
  const dispatches = (phase, from) => (cellOf(run, phase, from) || {})[at.count] || 1;
  let chosen = phases[phases.length - 1];
  const total = (from, to) => (matrices.get(chosen).get(from) || [])[to] || 0;
  const rate = (from, to) => total(from, to) / dispatches(chosen, from);
  const most = () =>
      Math.max(...Array.from(matrices.get(chosen), ([from, counts]) => Math.max(...counts) / dispatches(chosen, from)));
  const draw = (canvas, figure) => {
    const top = most();
    return drawGrid(canvas, figure, {
      columns: ranks.length,
      rows: ranks.length,
      xTitle: "to rank",
      yTitle: "from rank",
      xLabel: (i) => String(ranks[i]),
      yLabel: (i) => String(ranks[i]),
      paint: (to, from) => total(from, to) === 0 ? null : heatCell(rate(from, to), top),
      tip: (to, from) => total(from, to) === 0
          ? ""
          : "rank " + ranks[from] + (from === to ? " to itself" : " to rank " + ranks[to]) + "\n" +
              short(rate(from, to)) + " rows in a dispatch\n" + total(from, to) + " in " + dispatches(chosen, from)
    });
  };
  const controls = choice("Phase", phases.map((p) => [p, String(run.data.phases[p].index)]), chosen, (value) => {
    chosen = Number(value);
    card.redraw();
  });
  const legend = () => [0, 0.25, 0.5, 0.75, 1].map((share) => [heat(share), "", short(share * most()) + " rows"]);
  const table = dataTable(
      "traffic", "rows of all timed dispatches together, from a rank to each",
      ["phase", "from rank", "dispatches"].concat(ranks.map((rank) => "to " + rank)),
      () => phases.flatMap(
          (p) => Array.from(
              matrices.get(p),
              ([from, counts]) => [run.data.phases[p].index, ranks[from], dispatches(p, from)].concat(counts))),
      phases.reduce((sum, p) => sum + matrices.get(p).size, 0));
  const card = chartCard(
      "Traffic matrix", trafficNote(run), draw, table,
      {wide: true, height: gridHeight(ranks.length), controls: controls, legend: legend});
  return card.section;
}
