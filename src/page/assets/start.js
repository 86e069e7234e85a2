// Begins: reads the data, shows the page, draws its charts, and says in the page how long that took.

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  page.replaceChildren();
  const shows = {run: showRun, figures: showFigures, comparison: showComparison, batch: showBatch};
  shows[data.page](data, page);
  watchTheme(drawAll);
  drawAll();
  // From the beginning of the page's way to the screen to its last chart.
  const drawn = performance.now();
  document.body.dataset.drawnMs = drawn.toFixed(1);
  document.getElementById("drawn").textContent = "Drawn in " + short(drawn) + " ms.";
  setTimeout(fillTables, 0);
}

start();
