// Each chart's data as a table, collapsed. Rows are added after the charts are drawn, some at a time. A very large
// table shows only its first rows, and a button adds more: hundreds of thousands of cells cost a browser a minute.

const LARGE_TABLE = 60000;  // cells
const FIRST_ROWS = 500;
const MORE_ROWS = 1000;
const SLICE_MS = 12;
const waitingTables = [];
const usedNames = new Set();

// Figures of several runs may have the same name.
function uniqueName(name) {
  let unique = name;
  for (let i = 2; usedNames.has(unique); i++) unique = name + "-" + i;
  usedNames.add(unique);
  return unique;
}

// `columns`: names, or {name, text: true} for columns of words. `rows()` returns lists of values. If `count` gives
// their number, it is called after the charts are drawn.
function dataTable(id, caption, columns, rows, count) {
  const heads = columns.map((column) => (typeof column === "string" ? {name: column} : column));
  const body = element("tbody");
  const head = element(
      "tr", {},
      ...heads.map((column) => element("th", {scope: "col", class: column.text ? "text" : "", text: column.name})));
  const table =
      element("table", {id: uniqueName(id)}, element("caption", {text: caption}), element("thead", {}, head), body);
  const fill = {body: body, heads: heads, rows: count === undefined ? rows() : null, make: rows, next: 0};
  fill.count = count === undefined ? fill.rows.length : count;
  const large = fill.count * heads.length > LARGE_TABLE && fill.count > FIRST_ROWS;
  fill.end = large ? FIRST_ROWS : fill.count;
  waitingTables.push(fill);
  const summary =
      element("summary", {text: "Data: " + caption + " (" + fill.count + (fill.count === 1 ? " row)" : " rows)")});
  return element(
      "details", {}, summary, element("div", {class: "scroll", tabindex: "0"}, table), large ? moreButton(fill) : null);
}

function moreButton(fill) {
  const button = element("button", {type: "button"});
  const say = () => {
    const left = fill.count - fill.end;
    button.textContent = "Show " + Math.min(MORE_ROWS, left) + " more of " + left + " rows";
    button.hidden = left === 0;
  };
  button.addEventListener("click", () => {
    fill.end = Math.min(fill.end + MORE_ROWS, fill.count);
    while (fill.next < fill.end) addRow(fill);
    say();
  });
  say();
  return button;
}

function addRow(fill) {
  const row = document.createElement("tr");
  if (fill.rows === null) fill.rows = fill.make();
  const values = fill.rows[fill.next++];
  for (let i = 0; i < fill.heads.length; i++) {
    const cell = document.createElement("td");
    if (fill.heads[i].text) cell.className = "text";
    cell.textContent = plain(values[i]);
    row.append(cell);
  }
  fill.body.append(row);
}

// Fills all tables, in slices, so that the browser can handle events in between.
function fillTables() {
  const end = performance.now() + SLICE_MS;
  for (let rows = 1; waitingTables.length > 0; rows++) {
    if (rows % 64 === 0 && performance.now() > end) {
      setTimeout(fillTables, 0);
      return;
    }
    const fill = waitingTables[0];
    if (fill.next < fill.end)
      addRow(fill);
    else
      waitingTables.shift();
  }
  document.body.dataset.tables = "filled";
}
