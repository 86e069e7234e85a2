// Each chart's data as a table, collapsed. Rows are put in after the charts are drawn, some at a time; those of a very
// large table when it is opened first, as hundreds of thousands of cells cost a browser seconds.

const LARGE_TABLE = 60000; // cells
const SLICE_MS = 12;
const waitingTables = [];

// `columns`: names, or {name, text: true} for those that hold words. `rows()` makes lists of values.
function dataTable(id, caption, columns, rows) {
  const heads = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const body = element("tbody");
  const head = element("tr", {}, ...heads.map((column) =>
    element("th", { scope: "col", class: column.text ? "text" : "", text: column.name })));
  const table = element("table", { id: id }, element("caption", { text: caption }), element("thead", {}, head), body);
  const summary = element("summary", { text: "Data: " + caption });
  const details = element("details", {}, summary, element("div", { class: "scroll", tabindex: "0" }, table));
  const fill = { body: body, heads: heads, rows: rows(), next: 0 };
  summary.textContent += " (" + fill.rows.length + (fill.rows.length === 1 ? " row)" : " rows)");
  if (fill.rows.length * heads.length <= LARGE_TABLE) waitingTables.push(fill);
  else details.addEventListener("toggle", () => {
    waitingTables.push(fill);
    fillTables();
  }, { once: true });
  return details;
}

function addRow(fill) {
  const row = document.createElement("tr");
  const values = fill.rows[fill.next++];
  for (let i = 0; i < fill.heads.length; i++) {
    const cell = document.createElement("td");
    if (fill.heads[i].text) cell.className = "text";
    cell.textContent = plain(values[i]);
    row.append(cell);
  }
  fill.body.append(row);
}

// Goes on until all are filled, and lets the browser breathe between slices.
function fillTables() {
  const end = performance.now() + SLICE_MS;
  for (let rows = 1; waitingTables.length > 0; rows++) {
    if (rows % 64 === 0 && performance.now() > end) {
      setTimeout(fillTables, 0);
      return;
    }
    const fill = waitingTables[0];
    if (fill.next < fill.rows.length) addRow(fill);
    else waitingTables.shift();
  }
  document.body.dataset.tables = "filled";
}
