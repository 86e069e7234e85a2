// Reads the data, shows the page, draws its charts, and shows in the page how long that took.

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  page.replaceChildren();
  const shows = {run: showRun, figures: showFigures, comparison: showComparison, batch: showBatch};
  shows[data.page](data, page);
  watchTheme(drawAll);
  drawAll();
  // The time from the start of the page's loading until its last chart was drawn.
  const drawn = performance.now();
  document.body.dataset.drawnMs = drawn.toFixed(1);
  document.getElementById("drawn").textContent = "Drawn in " + short(drawn) + " ms.";
  setTimeout(fillTables, 0);
}

start();
