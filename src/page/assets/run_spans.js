// A chart of spans of time, with one line for each rank. A plugin of the chart paints the spans as rectangles, as in
// grid.js.

// spec: end (seconds), rows, heads, yTitle, yLabel as in drawGrid(); spans: {row, from, to} and the properties of a
// grid's cell; moments: {row, at, colour, mark}, painted over the spans; tip(seconds, row) -> text.
function drawSpans(canvas, figure, spec) {
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
        x: axis("seconds from the start of the run", {type: "linear", min: 0, max: spec.end, grid: {display: false}}),
        y: gridAxis(spec.rows, spec.yTitle, spec.yLabel, true, spec.heads)
      },
    },
    plugins: [{id: "spans", beforeDatasetsDraw: (drawn) => paintSpans(drawn, spec)}],
  });
  watchCells(chart, canvas, figure, (x, y) => {
    const row = Math.round(y);
    return x >= 0 && x <= spec.end && row >= 0 && row < spec.rows ? spec.tip(x, row) : "";
  });
  return chart;
}

function paintSpans(chart, spec) {
  const context = chart.ctx, x = chart.scales.x, y = chart.scales.y;
  const height = (y.bottom - y.top) / spec.rows, scale = (x.right - x.left) / spec.end;
  const free = new Array(spec.rows).fill(x.left);
  context.save();
  beginMarks(context, height);
  for (const span of spec.spans) {
    const left = x.left + span.from * scale, width = (span.to - span.from) * scale;
    const gap = width > 6 && height > 6 ? 1 : 0;
    const box = {left: left, top: y.top + span.row * height, width: width, height: height, gap: gap};
    free[span.row] = paintCell(context, box, span, free[span.row]);
  }
  const marked = new Array(spec.rows).fill(x.left);
  for (const moment of spec.moments) {
    const left = x.left + moment.at * scale, top = y.top + moment.row * height;
    context.fillStyle = moment.colour;
    context.fillRect(left - 1, top, 2, Math.max(1, height - 1));
    if (height < 9 || left < marked[moment.row]) continue;
    const room = context.measureText(moment.mark).width;
    const behind = left + 3 + room <= x.right;
    context.fillText(moment.mark, behind ? left + 3 + room / 2 : left - 3 - room / 2, top + height / 2);
    marked[moment.row] = left + room + 8;
  }
  context.restore();
}
