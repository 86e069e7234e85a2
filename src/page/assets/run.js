// The page of an elastic run: a description of the run, and its charts (run_charts.js).

// Arranges the cells by phase and rank, and maps the names of their columns to indexes.
function readRun(data) {
  const at = {};
  data.columns.forEach((name, i) => {
    at[name] = i;
  });
  const grid = data.phases.map(() => []);
  data.cells.sort((a, b) => a[at.phase] - b[at.phase] || a[at.rank] - b[at.rank]);
  for (const cell of data.cells) grid[cell[at.phase]][cell[at.rank]] = cell;
  const changes =
      data.transitions.rows.map((row) => Object.fromEntries(data.transitions.columns.map((name, i) => [name, row[i]])));
  const byPhase = data.phases.map(() => []);
  for (const change of changes)
    if (byPhase[change.phase]) byPhase[change.phase].push(change);
  return {
    data: data,
    at: at,
    grid: grid,
    changes: changes,
    byPhase: byPhase,
    head: data.head,
    measured: (cell) => cell !== undefined && cell[at.count] > 0
  };
}

function cellOf(run, phase, rank) {
  return run.grid[phase][rank];
}

function stateOf(run, cell) {
  return run.data.states[cell[run.at.state]];
}

function changeOf(run, phase, rank) {
  return run.byPhase[phase].find((change) => change.rank === run.data.ranks[rank]);
}

function largest(changes, name) {
  return changes.reduce((most, change) => change[name] !== null && change[name] > most ? change[name] : most, -1);
}

function describeRun(run) {
  const head = run.head, config = head.config || {};
  const cells = run.data.cells, counts = {};
  for (const cell of cells) counts[stateOf(run, cell)] = (counts[stateOf(run, cell)] || 0) + 1;
  const verdict = element("p", {
    class: head.passed ? "good" : "bad",
    id: "verdict",
    text: head.passed ? "Passed" : "Failed" + (head.error ? ": " + head.error : "")
  });
  const checked = cells.reduce((sum, cell) => sum + cell[run.at.checked], 0);
  const lost = cells.reduce((sum, cell) => sum + cell[run.at.lost], 0);
  return element(
      "section", {}, verdict, facts([
        ["run", head.run],
        ["job", head.job],
        ["started", head.started],
        ["took", short(head.elapsed_s) + " s"],
        ["weft", head.version],
        ["store", head.store],
        ["phases", run.data.phases.length],
        ["ranks in phases", Object.entries(counts).map(([state, count]) => count + " " + state).join(", ")],
        ["operations checked", checked],
        ["selections lost", lost],
        [
          "processors",
          head.processors.map((one) => one.ranks + " ranks on " + one.usable + " of " + one.host).join("; ")
        ],
      ]),
      element("details", {}, element("summary", {text: "Configuration"}), facts(Object.entries(config))));
}

// A table of all data of each rank in each phase.
function rankTable(run) {
  const data = run.data, at = run.at;
  const words = {
    rank: (cell) => data.ranks[cell[at.rank]],
    state: (cell) => stateOf(run, cell),
    host: (cell) => data.hosts[cell[at.host]],
    reason: (cell) => data.reasons[cell[at.reason]],
    slot: (cell) => cell[at.slot] < 0 ? "" : cell[at.slot],
    gpu: (cell) => cell[at.gpu] < 0 ? "" : cell[at.gpu],
    life: (cell) => cell[at.life] || ""
  };
  const columns =
      data.columns.map((name) => ["state", "host", "reason"].includes(name) ? {name: name, text: true} : name);
  return dataTable(
      "ranks", "every rank in every phase; times in us, rates in GB/s", columns,
      () => data.cells.map((cell) => data.columns.map((name, i) => words[name] ? words[name](cell) : cell[i])),
      data.cells.length);
}

function changeTable(run) {
  const columns = run.data.transitions.columns;
  return dataTable(
      "changes", "joins, departures and deaths; times in us",
      columns.map((name) => name === "change" ? {name: name, text: true} : name), () => run.data.transitions.rows);
}

function showRun(data, page) {
  const run = readRun(data);
  page.append(describeRun(run));
  const charts = element("div", {class: "charts"});
  charts.append(timelineCard(run));
  for (const card
           of [latencyCard(run), bandwidthCard(run), changeCard(run), stallCard(run), rankLatencyCard(run),
               heatCard(run), trafficCard(run)])
    if (card) charts.append(card);
  page.append(charts);
}
