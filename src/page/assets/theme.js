// Light and dark colours: as the system is set, until the reader chooses.

let colours = {};

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Reads the colours of the style sheet for the charts.
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue("--" + name).trim();
  colours = {series: []};
  for (let i = 0; i < 8; i++) colours.series.push(of("series-" + i));
  for (const name
           of ["ground", "panel", "text", "muted", "line", "good", "bad", "bound", "passed", "failed", "killed", "lost",
               "left", "unreached", "interrupted"])
    colours[name] = of(name);
}

function withAlpha(hex, alpha) {
  return hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
}

// A colour from pale to strong, for a value between 0 and 1.
function heat(share) {
  const light = [[236, 243, 250], [86, 160, 211], [8, 64, 129]];
  const dark = [[30, 42, 56], [42, 122, 181], [163, 220, 255]];
  const stops = isDark() ? dark : light;
  const at = Math.max(0, Math.min(1, share)) * 2, low = at < 1 ? 0 : 1;
  const mix = stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (at - low)));
  return "rgb(" + mix.join(",") + ")";
}

function watchTheme(redraw) {
  const button = document.getElementById("theme");
  const say = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-pressed", String(isDark()));
    button.setAttribute("aria-label", isDark() ? "show the page in light colours" : "show the page in dark colours");
  };
  const change = () => {
    say();
    readColours();
    redraw();
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    change();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", change);
  // Printed pages have light colours.
  let before;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    change();
  });
  addEventListener("afterprint", () => {
    if (before === undefined)
      delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = before;
    change();
  });
  readColours();
  say();
}
