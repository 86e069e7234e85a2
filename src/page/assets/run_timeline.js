// The timeline of an elastic run: its ranks and phases.

function timelineCell(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  if (!cell) return change ? {colour: colours.left, mark: MARKS[change.change]} : null;
  const state = stateOf(run, cell);
  const mark = MARKS[state] || (change ? MARKS[change.change] : "");
  return {colour: colours[state] || colours.left, mark: mark, edge: change !== undefined && change.change === "join"};
}

function timelineTip(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  const lines = ["rank " + run.data.ranks[rank] + ", phase " + run.data.phases[phase].index];
  if (cell) {
    lines.push(
        stateOf(run, cell) + (cell[run.at.life] ? ", life " + cell[run.at.life] : "") +
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
    if (row === 0) return views[phase] > 0 ? {colour: colours.ground, mark: String(views[phase]), spread: true} : null;
    const share = Math.sqrt(stalls[phase] / worst);
    return stalls[phase] < 0 ? null : {colour: heat(share), mark: time(stalls[phase]), ink: heatInk(share)};
  };
  const tip = (phase, row) => {
    if (row >= 2) return timelineTip(run, phase, row - 2);
    if (row === 0) return views[phase] > 0 ? "view " + views[phase] + " after the changes of phase " + phase : "";
    const change = run.byPhase[phase].find((one) => one.longest_stall_us === stalls[phase]);
    return !change ? ""
                   : "longest stall " + time(stalls[phase]) + " of rank " + change.stalled_rank + "\nits median " +
            time(change.median_us);
  };
  const draw = (canvas, figure) => drawGrid(canvas, figure, {
    columns: phases.length,
    rows: ranks.length + 2,
    heads: 2,
    xTitle: "phase",
    yTitle: "rank",
    xLabel: phaseLabel(run),
    paint: paint,
    tip: tip,
    yLabel: (i) => i === 0 ? "view"
        : i === 1          ? "stall"
                           : String(ranks[i - 2])
  });
  const used = new Set(run.data.cells.map((cell) => stateOf(run, cell)));
  const legend = () =>
      run.data.states.filter((state) => used.has(state))
          .map((state) => [colours[state] || colours.left, MARKS[state] || "", state])
          .concat([["", MARKS.join, "joined"], ["", MARKS.leave, "left"], ["", MARKS.kill, "killed as planned"]]);
  const table = dataTable(
      "timeline", "state of every rank by phase",
      ["rank"].concat(phases.map((phase) => ({name: "phase " + phase.index, text: true}))),
      () => ranks.map((rank, r) => [rank].concat(phases.map((phase, p) => {
        const cell = cellOf(run, p, r);
        return cell ? stateOf(run, cell) : "";
      }))));
  return chartCard(
             "Ranks and phases",
             "Who took part in which phase and how it went; above, the view that the phase's " +
                 "changes ended in and the longest stall of a survivor meanwhile.",
             draw, table, {wide: true, height: gridHeight(ranks.length + 2), legend: legend})
      .section;
}
