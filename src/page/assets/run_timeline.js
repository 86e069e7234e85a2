// The timeline of an elastic run: its ranks and phases.

// A time since the start of the run.
function moment(seconds) {
  return Number(seconds.toPrecision(6)) + " s";
}

// The end of a phase that began; a phase without an end lasted until the end of the run.
function endOf(run, phase) {
  const end = run.data.phases[phase].end_s;
  return end === null ? Math.max(run.head.elapsed_s, run.data.phases[phase].begin_s) : end;
}

function timelineCell(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  if (!cell) return change ? {colour: colours.left, mark: MARKS[change.change]} : null;
  const state = stateOf(run, cell);
  const mark = MARKS[state] || (change ? MARKS[change.change] : "");
  return {colour: colours[state] || colours.left, mark: mark, edge: change !== undefined && change.change === "join"};
}

function timelineTip(run, phase, rank) {
  const cell = cellOf(run, phase, rank), change = changeOf(run, phase, rank);
  const of = run.data.phases[phase];
  const lines = ["rank " + run.data.ranks[rank] + ", phase " + of.index];
  if (of.begin_s !== null) lines.push(moment(of.begin_s) + " to " + moment(endOf(run, phase)));
  if (cell) {
    lines.push(
        stateOf(run, cell) + (cell[run.at.life] ? ", life " + cell[run.at.life] : "") +
        (run.data.hosts[cell[run.at.host]] ? ", on " + run.data.hosts[cell[run.at.host]] : ""));
    if (run.data.reasons[cell[run.at.reason]]) lines.push(run.data.reasons[cell[run.at.reason]]);
    if (run.measured(cell)) lines.push("p50 " + time(cell[run.at.both_p50]) + ", p99 " + time(cell[run.at.both_p99]));
  }
  if (change) {
    lines.push(
        change.change + (change.time_s === null ? "" : " at " + moment(change.time_s)) +
        (change.epoch ? ": view " + change.epoch + " from operation " + change.op : ""));
    if (change.detect_us !== null) lines.push("found after " + time(change.detect_us));
  }
  return cell || change ? lines.join("\n") : "";
}

// The lines above the ranks: the view after the changes of each phase, and the longest stall that the changes caused.
function timelineHeads(run) {
  const views = run.byPhase.map((changes) => largest(changes, "epoch"));
  const stalls = run.byPhase.map((changes) => largest(changes, "longest_stall_us"));
  const worst = Math.max(1, ...stalls);
  const stallTip = (phase) => {
    const change = run.byPhase[phase].find((one) => one.longest_stall_us === stalls[phase]);
    return !change ? ""
                   : "longest stall " + time(stalls[phase]) + " of rank " + change.stalled_rank + "\nits median " +
            time(change.median_us);
  };
  return {
    paint: (phase, row) => {
      if (row === 0)
        return views[phase] > 0 ? {colour: colours.ground, mark: String(views[phase]), spread: true} : null;
      const share = Math.sqrt(stalls[phase] / worst);
      return stalls[phase] < 0 ? null : {colour: heat(share), mark: time(stalls[phase]), ink: heatInk(share)};
    },
    tip: (phase, row) => {
      if (row === 1) return stallTip(phase);
      return views[phase] > 0 ? "view " + views[phase] + " after the changes of phase " + phase : "";
    }
  };
}

const TIME_HEADS = ["phase", "view", "stall"];
const PHASE_HEADS = ["view", "stall"];

// The spans of a rank in a phase. A rank that joins has two spans, before and after it joins; a rank that leaves or
// dies has one span, which ends there.
function rankSpans(run, phase, rank) {
  const cell = timelineCell(run, phase, rank), change = changeOf(run, phase, rank);
  const from = run.data.phases[phase].begin_s, to = endOf(run, phase);
  if (!cell) return [];
  const inside = change && change.time_s !== null && change.time_s >= from && change.time_s <= to;
  const span = (begin, end, colour) => ({row: rank + TIME_HEADS.length, from: begin, to: end, colour: colour});
  if (!inside) return [Object.assign(span(from, to, cell.colour), {mark: MARKS[stateName(run, phase, rank)] || ""})];
  if (change.change !== "join") return [span(from, change.time_s, cell.colour)];
  return [span(from, change.time_s, colours.unreached), span(change.time_s, to, cell.colour)];
}

function stateName(run, phase, rank) {
  const cell = cellOf(run, phase, rank);
  return cell ? stateOf(run, cell) : "";
}

function timelineInTime(run, heads, common) {
  const begun = run.data.phases.map((phase, p) => p).filter((p) => run.data.phases[p].begin_s !== null);
  const spans = [], moments = [];
  for (const p of begun) {
    const from = run.data.phases[p].begin_s, to = endOf(run, p);
    spans.push({
      row: 0,
      from: from,
      to: to,
      colour: p % 2 === 0 ? colours.ground : colours.line,
      mark: String(run.data.phases[p].index)
    });
    for (const row of [0, 1]) {
      const cell = heads.paint(p, row);
      if (cell) spans.push(Object.assign(cell, {row: row + 1, from: from, to: to, spread: false}));
    }
    run.data.ranks.forEach((rank, r) => spans.push(...rankSpans(run, p, r)));
    for (const change of run.byPhase[p])
      if (change.time_s !== null && run.data.ranks.includes(change.rank))
        moments.push({
          row: run.data.ranks.indexOf(change.rank) + TIME_HEADS.length,
          at: change.time_s,
          mark: MARKS[change.change],
          colour: change.change === "kill" ? colours.bad : colours.text
        });
  }
  moments.sort((a, b) => a.at - b.at);
  const phaseAt = (seconds) => begun.find((p) => seconds >= run.data.phases[p].begin_s && seconds < endOf(run, p));
  return Object.assign({}, common, {
    end: Math.max(run.head.elapsed_s, ...begun.map((p) => endOf(run, p))) || 1,
    spans: spans,
    moments: moments,
    tip: (seconds, row) => {
      const phase = phaseAt(seconds);
      if (phase === undefined) return "";
      if (row === 0)
        return "phase " + run.data.phases[phase].index + "\n" + moment(run.data.phases[phase].begin_s) + " to " +
            moment(endOf(run, phase));
      return row < TIME_HEADS.length ? heads.tip(phase, row - 1) : timelineTip(run, phase, row - TIME_HEADS.length);
    }
  });
}

function timelineByPhase(run, heads, common) {
  return Object.assign({}, common, {
    columns: run.data.phases.length,
    xTitle: "phase",
    xLabel: phaseLabel(run),
    paint: (phase, row) => row >= 2 ? timelineCell(run, phase, row - 2) : heads.paint(phase, row),
    tip: (phase, row) => row >= 2 ? timelineTip(run, phase, row - 2) : heads.tip(phase, row)
  });
}

function timelineTables(run) {
  const ranks = run.data.ranks, phases = run.data.phases;
  const states = dataTable(
      "timeline", "state of every rank by phase",
      ["rank"].concat(phases.map((phase) => ({name: "phase " + phase.index, text: true}))),
      () => ranks.map((rank, r) => [rank].concat(phases.map((phase, p) => stateName(run, p, r)))));
  if (phases.every((phase) => phase.begin_s === null)) return states;
  const times = dataTable(
      "times", "phases, in seconds from the start of the run", ["phase", "began", "ended"],
      () => phases.map((phase) => [phase.index, phase.begin_s, phase.end_s]));
  return element("div", {}, times, states);
}

function timelineCard(run) {
  const ranks = run.data.ranks, heads = timelineHeads(run);
  const timed = run.data.phases.some((phase) => phase.begin_s !== null);
  let inTime = timed;
  const common = (names) => ({
    rows: ranks.length + names.length,
    heads: names.length,
    yTitle: "rank",
    yLabel: (i) => i < names.length ? names[i] : String(ranks[i - names.length])
  });
  const draw = (canvas, figure) => inTime ? drawSpans(canvas, figure, timelineInTime(run, heads, common(TIME_HEADS)))
                                          : drawGrid(canvas, figure, timelineByPhase(run, heads, common(PHASE_HEADS)));
  const used = new Set(run.data.cells.map((cell) => stateOf(run, cell)));
  const legend = () =>
      run.data.states.filter((state) => used.has(state))
          .map((state) => [colours[state] || colours.left, MARKS[state] || "", state])
          .concat([["", MARKS.join, "joined"], ["", MARKS.leave, "left"], ["", MARKS.kill, "killed as planned"]])
          .concat(inTime ? [[colours.unreached, "", "launched, not yet in"]] : []);
  const controls = timed ? choice("Across", [["time", "Time"], ["phase", "Phase by phase"]], "time", (value) => {
    inTime = value === "time";
    card.redraw();
  }) : null;
  const card = chartCard(
      "Ranks and phases",
      "Who took part in which phase and how it went; above, the view that the phase's changes ended in and the " +
          "longest stall of a survivor meanwhile.",
      draw, timelineTables(run),
      {wide: true, height: gridHeight(ranks.length + TIME_HEADS.length), legend: legend, controls: controls});
  return card.section;
}
