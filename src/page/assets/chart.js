// Shared parts of the charts. Each chart has a function that draws it, since a change of theme draws all charts anew.

const drawnCharts = [];

// A card with a heading, a note, a picture and a table. `draw(canvas)` returns the chart. `options`: height, wide,
// controls, legend.
function chartCard(title, note, draw, table, options) {
  const given = options || {};
  const canvas = element("canvas", {role: "img", "aria-label": title + ". " + note});
  const frame = element("div", {class: "chart"}, canvas);
  if (given.height) frame.style.height = given.height + "px";
  const figure = element("figure", {}, frame);
  const section = element(
      "section", {class: given.wide ? "wide" : ""}, element("h2", {text: title}),
      element("p", {class: "muted", text: note}), given.controls, figure,
      given.legend ? element("ul", {class: "legend"}) : null, table);
  const chart = {canvas: canvas, figure: figure, section: section, draw: draw, legend: given.legend, made: null};
  drawnCharts.push(chart);
  return {section: section, redraw: () => drawChart(chart)};
}

function drawChart(chart) {
  if (chart.made) chart.made.destroy();
  chart.made = chart.draw(chart.canvas, chart.figure);
  if (!chart.legend) return;
  const list = chart.section.querySelector(".legend");
  list.replaceChildren(...chart.legend().map(([colour, mark, text]) => {
    const swatch = element("span", {class: "swatch", "aria-hidden": "true", text: mark});
    if (colour) swatch.style.background = colour;
    return element("li", {}, swatch, text);
  }));
}

function drawAll() {
  Chart.defaults.color = colours.muted;
  Chart.defaults.borderColor = colours.line;
  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.animation = false;
  for (const chart of drawnCharts) drawChart(chart);
}

// Each line has its own shape and its own colour.
const SHAPES = ["circle", "rect", "triangle", "rectRot", "crossRot", "star", "cross", "line"];

function colourOf(index) {
  return colours.series[index % colours.series.length];
}

// The options of Chart.js that all charts have in common. Datasets marked `helper` are edges of bands.
function commonOptions(options) {
  return {
    responsive: true,
    maintainAspectRatio: false,
    animation: false,
    interaction: {mode: "nearest", intersect: false, axis: options.axis || "x"},
    indexAxis: options.indexAxis || "x",
    scales: options.scales,
    plugins: {
      legend: {
        display: options.legend !== false,
        position: "bottom",
        labels: {usePointStyle: true, boxWidth: 10, filter: (item, data) => !data.datasets[item.datasetIndex].helper},
        onClick: (event, item, legend) => toggleSeries(legend.chart, item.datasetIndex),
      },
      tooltip: {
        filter: (item) => !item.dataset.helper,
        callbacks: options.tips || {},
      },
    },
  };
}

// Shows or hides a line together with its band.
function toggleSeries(chart, index) {
  const group = chart.data.datasets[index].group;
  const show = !chart.isDatasetVisible(index);
  chart.data.datasets.forEach((dataset, i) => {
    if (i === index || (group !== undefined && dataset.group === group)) chart.setDatasetVisibility(i, show);
  });
  chart.update();
}

function axis(title, more) {
  return Object.assign({title: {display: true, text: title}, grid: {color: colours.line}}, more || {});
}

// A logarithmic axis whose ticks are the measured `values`, so that there is a tick at 4 KiB and not at 4000 bytes.
function valueAxis(title, values, label) {
  const sorted = Array.from(new Set(values)).sort((a, b) => a - b), step = Math.ceil(sorted.length / 14);
  const pad = Math.pow(sorted[sorted.length - 1] / sorted[0], 0.02);
  return axis(title, {
    type: "logarithmic",
    min: sorted[0] / pad,
    max: sorted[sorted.length - 1] * pad,
    afterBuildTicks: (scale) => {
      scale.ticks = sorted.filter((value, i) => i % step === 0).map((value) => ({value: value}));
    },
    ticks: {callback: (value) => label(value), maxRotation: 50},
  });
}

// A logarithmic axis whose ticks are decades.
function logAxis(title, label) {
  return axis(title, {
    type: "logarithmic",
    afterBuildTicks: (scale) => {
      const ticks = [], low = Math.floor(Math.log10(scale.min)), high = Math.ceil(Math.log10(scale.max));
      const steps = high - low <= 2 ? [1, 2, 5] : [1];
      for (let power = low; power <= high; power++)
        for (const step of steps) {
          const value = step * Math.pow(10, power);
          if (value >= scale.min * 0.999 && value <= scale.max * 1.001) ticks.push({value: value});
        }
      scale.ticks = ticks;
    },
    ticks: {callback: (value) => label(value), maxRotation: 50},
  });
}

// A line of points {x, y, low, high}. It has three datasets; two of them are the edges of the band between low and
// high.
function bandedLine(label, points, index, more) {
  const colour = colourOf(index);
  const edge = {borderWidth: 0, pointRadius: 0, pointHitRadius: 0, helper: true, group: index, parsing: false};
  const line = Object.assign(
      {
        label: label,
        data: points,
        parsing: false,
        borderColor: colour,
        backgroundColor: colour,
        borderWidth: 2,
        pointRadius: points.length > 60 ? 0 : 3,
        pointStyle: SHAPES[index % SHAPES.length],
        group: index,
      },
      more || {});
  if (!points.some((point) => point.high !== undefined && point.high !== null)) return [line];
  const banded = points.filter((point) => point.high !== undefined && point.high !== null);
  return [
    Object.assign({}, edge, {data: banded.map((point) => ({x: point.x, y: point.low}))}),
    Object.assign({}, edge, {
      data: banded.map((point) => ({x: point.x, y: point.high})),
      fill: "-1",
      backgroundColor: withAlpha(colour, 0.16),
    }),
    line,
  ];
}
