// A chart of cells, phases against ranks. A plugin of the chart paints each cell as a rectangle, so that ten thousand
// cells take a few milliseconds.

// spec: columns and rows (numbers), heads (rows above the others, which always have their labels), xTitle, yTitle,
// xLabel(i), yLabel(i), paint(column, row) -> null or {colour, mark, ink, edge, spread}, tip(column, row) -> text. A
// mark is left out if the cell has no room for it, unless it is `spread`: then it uses the room of the cells after it.
function drawGrid(canvas, figure, spec) {
  const chart = new Chart(canvas, {
    type: "scatter",
    data: {datasets: [{data: []}]},
    options: {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      events: [],
      plugins: {legend: {display: false}, tooltip: {enabled: false}},
      scales: {
        x: gridAxis(spec.columns, spec.xTitle, spec.xLabel, false, 0),
        y: gridAxis(spec.rows, spec.yTitle, spec.yLabel, true, spec.heads || 0)
      },
    },
    plugins: [{id: "cells", beforeDatasetsDraw: (drawn) => paintCells(drawn, spec)}],
  });
  watchCells(chart, canvas, figure, (x, y) => {
    const column = Math.round(x), row = Math.round(y);
    const inside = column >= 0 && column < spec.columns && row >= 0 && row < spec.rows;
    return inside ? spec.tip(column, row) : "";
  });
  return chart;
}

function gridAxis(count, title, label, reverse, heads) {
  return axis(title, {
    type: "linear",
    min: -0.5,
    max: count - 0.5,
    reverse: reverse,
    grid: {display: false},
    afterBuildTicks: (scale) => {
      const room = scale.isHorizontal() ? scale.chart.width / 36 : scale.chart.height / 13;
      const step = Math.max(1, Math.ceil(count / room));
      scale.ticks = [];
      for (let i = 0; i < count; i += i < heads ? 1 : step) scale.ticks.push({value: i});
    },
    ticks: {autoSkip: false, maxRotation: 0, callback: (value) => label(value)},
  });
}

function paintCells(chart, spec) {
  const context = chart.ctx, x = chart.scales.x, y = chart.scales.y;
  const width = (x.right - x.left) / spec.columns, height = (y.bottom - y.top) / spec.rows;
  const gap = width > 6 && height > 6 ? 1 : 0;
  context.save();
  beginMarks(context, height);
  for (let row = 0; row < spec.rows; row++) {
    let free = x.left;
    for (let column = 0; column < spec.columns; column++) {
      const cell = spec.paint(column, row);
      if (!cell) continue;
      const box = {left: x.left + column * width, top: y.top + row * height, width: width, height: height, gap: gap};
      free = paintCell(context, box, cell, free);
    }
  }
  context.restore();
}

function beginMarks(context, height) {
  context.font = Math.min(12, Math.floor(height * 0.8)) + "px " + Chart.defaults.font.family;
  context.textAlign = "center";
  context.textBaseline = "middle";
}

// `free`: where the marks of the row end. Returns where they end with this cell.
function paintCell(context, box, cell, free) {
  const height = Math.max(1, box.height - box.gap);
  context.fillStyle = cell.colour;
  context.fillRect(box.left, box.top, Math.max(1, box.width - box.gap), height);
  if (cell.edge) {
    context.fillStyle = colours.text;
    context.fillRect(box.left, box.top, Math.max(1.5, Math.min(3, box.width / 4)), height);
  }
  if (!cell.mark || box.height < 9 || box.left < free) return free;
  const room = context.measureText(cell.mark).width + 2;
  if (room > box.width && !cell.spread) return free;
  context.fillStyle = cell.ink || colours.text;
  context.fillText(cell.mark, Math.max(box.left + box.width / 2, box.left + room / 2), box.top + box.height / 2);
  return box.left + room + 8;
}

// Shows a text for the cell under the pointer: `tipAt(x, y)` with values of the axes. The table has the same data, for
// readers without a pointer.
function watchCells(chart, canvas, figure, tipAt) {
  let tip = figure.querySelector(".tip");
  if (!tip) {
    tip = element("div", {class: "tip", "aria-hidden": "true", hidden: ""});
    figure.append(tip);
  }
  canvas.onmouseleave = () => {
    tip.hidden = true;
  };
  canvas.onmousemove = (event) => {
    const text = tipAt(chart.scales.x.getValueForPixel(event.offsetX), chart.scales.y.getValueForPixel(event.offsetY));
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.left = Math.min(event.offsetX + 12, Math.max(0, canvas.clientWidth - 200)) + "px";
    tip.style.top = event.offsetY + 14 + "px";
  };
}
