// The page of a scenario: its tests, a row for each run with its phases, and links to the pages of the runs.

const RUN_STATES = {
  passed: ["\u2713", "--passed"],
  failed: ["\u2717", "--failed"],
  cancelled: ["\u25d0", "--interrupted"],
  lost: ["?", "--failed"],
  runs: ["\u25b8", "--left"],
  waits: ["\u25cb", "--unreached"],
  not_submitted: ["\u00b7", "--unreached"],
};
const PHASE_STATES = {
  passed: ["\u2713", "--passed"],
  failed: ["\u2717", "--failed"],
  interrupted: ["\u25d0", "--interrupted"],
  unreached: ["\u25cb", "--unreached"],
};

// A coloured mark, with its meaning in words.
function stateMark(states, state, words) {
  const [mark, colour] = states[state] || ["?", "--left"];
  const made = element("span", {class: "swatch", role: "img", title: words, "aria-label": words, text: mark});
  made.style.background = "var(" + colour + ")";
  return made;
}

function runRow(run) {
  const phases = run.phases.map((state, i) => stateMark(PHASE_STATES, state, "phase " + i + ": " + state));
  const name = run.page === null ? run.id : element("a", {href: encodeURI(run.page), text: run.id});
  const state = run.state.replaceAll("_", " ");
  return element(
      "tr", {}, element("td", {class: "text"}, name), element("td", {class: "text", text: run.action}),
      element("td", {text: run.job > 0 ? plain(run.job) : ""}), element("td", {class: "text", text: run.nodes}),
      element("td", {class: "text"}, stateMark(RUN_STATES, run.state, state), state),
      element("td", {class: "text"}, ...phases), element("td", {text: run.default === null ? "" : short(run.default)}),
      element("td", {class: "text why", text: run.why}));
}

function testSection(test, runs, grid) {
  const heads = ["run", "action", "job", "nodes", "state", "phases", "default GB/s", "why"];
  const numbers = ["job", "default GB/s"];
  const head =
      heads.map((name) => element("th", {scope: "col", class: numbers.includes(name) ? "" : "text", text: name}));
  const passed = runs.filter((run) => run.state === "passed").length;
  return element(
      "section", {class: "wide"}, element("h2", {text: test}),
      element("p", {class: passed === runs.length ? "good" : "bad", text: passed + " of " + runs.length + " passed"}),
      grid === undefined ? null
                         : element("p", {text: "Best: " + grid.best + (grid.against_next === "" ? "" : "; " + grid.against_next)}),
      element(
          "div", {class: "scroll", tabindex: "0"},
          element(
              "table", {}, element("thead", {}, element("tr", {}, ...head)),
              element("tbody", {}, ...runs.map(runRow)))));
}

function showBatch(data, page) {
  const all = data.passed === data.runs.length;
  page.append(element(
      "section", {},
      element(
          "p",
          {class: all ? "good" : "bad", id: "verdict", text: data.passed + " of " + data.runs.length + " runs passed"}),
      facts([["scenario", data.name], ["directory", data.directory]])));
  for (const test of new Set(data.runs.map((run) => run.test)))
    page.append(
        testSection(test, data.runs.filter((run) => run.test === test), data.grids.find((grid) => grid.test === test)));
}
