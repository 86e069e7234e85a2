// A chart of cells, phases against ranks: a cell is a rectangle that a plugin of the chart paints, so that ten
// thousand of them take some milliseconds.

// spec: columns and rows (numbers), heads (rows above the others, which always have their labels), xTitle, yTitle,
// xLabel(i), yLabel(i), paint(column, row) -> null or {colour, mark, ink, edge, spread}, tip(column, row) -> text.
// A mark is left out where the cell has no room for it; one that is `spread` takes the room of those after it.
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
  watchCells(chart, canvas, figure, spec);
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
  context.font = Math.min(12, Math.floor(height * 0.8)) + "px " + Chart.defaults.font.family;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let row = 0; row < spec.rows; row++) {
    let free = x.left;
    for (let column = 0; column < spec.columns; column++) {
      const cell = spec.paint(column, row);
      if (!cell) continue;
      const left = x.left + column * width, top = y.top + row * height;
      context.fillStyle = cell.colour;
      context.fillRect(left, top, Math.max(1, width - gap), Math.max(1, height - gap));
      if (cell.edge) {
        context.fillStyle = colours.text;
        context.fillRect(left, top, Math.max(1.5, Math.min(3, width / 4)), Math.max(1, height - gap));
      }
      if (!cell.mark || height < 9 || left < free) continue;
      const room = context.measureText(cell.mark).width + 2;
      if (room > width && !cell.spread) continue;
      context.fillStyle = cell.ink || colours.text;
      context.fillText(cell.mark, Math.max(left + width / 2, left + room / 2), top + height / 2);
      free = left + room + 8;
    }
  }
  context.restore();
}

// The cell under the pointer says what it is. The same stands in the table, for those who have no pointer.
function watchCells(chart, canvas, figure, spec) {
  let tip = figure.querySelector(".tip");
  if (!tip) {
    tip = element("div", {class: "tip", "aria-hidden": "true", hidden: ""});
    figure.append(tip);
  }
  canvas.onmouseleave = () => {
    tip.hidden = true;
  };
  canvas.onmousemove = (event) => {
    const column = Math.round(chart.scales.x.getValueForPixel(event.offsetX));
    const row = Math.round(chart.scales.y.getValueForPixel(event.offsetY));
    const inside = column >= 0 && column < spec.columns && row >= 0 && row < spec.rows;
    const text = inside ? spec.tip(column, row) : "";
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.left = Math.min(event.offsetX + 12, Math.max(0, canvas.clientWidth - 200)) + "px";
    tip.style.top = event.offsetY + 14 + "px";
  };
}
