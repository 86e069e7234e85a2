// The costs of joins, departures and deaths in an elastic run.

const MANY = 60;          // phases from which on the bars are too thin to be distinguished
const MAX_CHANGES = 400;  // bars; if there are more changes, each phase shows only its slowest one

function changeCard(run) {
  const steps = [
    ["launch_us", "launch"], ["connect_us", "connect"], ["first_dispatch_us", "until it took effect"],
    ["detect_us", "found by the first survivor"]
  ];
  let shown = run.changes;
  if (shown.length === 0) return null;
  const all = shown.length <= MAX_CHANGES;
  const total = (change) => steps.slice(0, 3).reduce((sum, [name]) => sum + (change[name] || 0), 0);
  if (!all)
    shown = run.byPhase.filter((list) => list.length > 0)
                .map((list) => list.reduce((slowest, change) => total(change) > total(slowest) ? change : slowest));
  const draw = (canvas) => new Chart(canvas, {
    type: "bar",
    data: {
      labels: shown.map((change) => change.phase + ": " + change.rank + " " + change.change),
      datasets: steps.map(([name, label], i) => ({
                            label: label,
                            stack: name === "detect_us" ? "found" : "steps",
                            categoryPercentage: shown.length > MANY ? 1 : 0.8,
                            barPercentage: shown.length > MANY ? 1 : 0.9,
                            backgroundColor: colourOf(i),
                            data: shown.map((change) => change[name] === null ? null : change[name] / 1000)
                          }))
    },
    options: commonOptions({
      scales: {x: axis("phase: rank and change", {stacked: true}), y: axis("ms", {stacked: true, beginAtZero: true})},
      tips: {label: (item) => item.dataset.label + ": " + short(item.raw) + " ms"}
    })
  });
  return chartCard(
             "What changes cost",
             "Joins: from the decision to the first line of the rank's process, until it " +
                 "was connected, and until its first dispatch had returned. Departures: until they took effect." +
                 (all ? "" : " Of each phase the slowest change."),
             draw, changeTable(run))
      .section;
}

function stallCard(run) {
  const phases = run.byPhase
                     .map(
                         (changes, p) =>
                             [p,
                              changes.find(
                                  (change) => change.longest_stall_us !== null &&
                                      change.longest_stall_us === largest(changes, "longest_stall_us"))])
                     .filter(([, change]) => change !== undefined);
  if (phases.length === 0) return null;
  const lines = [
    ["longest_stall_us", "longest stall"], ["membership_stall_us", "without joiners' own work"],
    ["median_us", "median operation of that rank"]
  ];
  const many = phases.length > MANY;
  const draw = (canvas) => new Chart(canvas, {
    type: many ? "line" : "bar",
    data: {
      labels: phases.map(([p]) => run.data.phases[p].index),
      datasets: lines.map(([name, label], i) => ({
                            label: label,
                            backgroundColor: colourOf(i),
                            borderColor: colourOf(i),
                            pointRadius: 0,
                            borderWidth: many ? 1.5 : 0,
                            data: phases.map(([, change]) => change[name] > 0 ? change[name] : null)
                          }))
    },
    options: commonOptions({
      scales: {x: axis("phase"), y: logAxis("us", short)},
      tips: {label: (item) => item.dataset.label + ": " + time(item.raw)}
    })
  });
  const table = dataTable(
      "stalls", "longest stall of a survivor by phase, us",
      ["phase", "stalled rank"].concat(lines.map(([, label]) => label)),
      () => phases.map(
          ([p, change]) => [run.data.phases[p].index, change.stalled_rank].concat(
              lines.map(([name]) => change[name]))));
  return chartCard(
             "Stalls", "The longest dispatch or combine of a survivor that overlapped the phase's changes.", draw,
             table)
      .section;
}
