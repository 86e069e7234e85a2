"use strict";
// Numbers and texts for people, and elements of the page. No code of the page makes markup from text: texts of results
// are set as textContent.

const NONE = "\u2013";

// The value as it is in the results, which have six digits.
function plain(value) {
  return value === null || value === undefined ? "" : String(value);
}

// A short form with at most four digits, for axes and tips.
function short(value) {
  if (value === null || value === undefined || !isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1e15) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(size >= 1 || size === 0 ? 4 : 3)));
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit + 1 < SIZES.length) {
    value /= 1024;
    unit++;
  }
  return short(value) + " " + SIZES[unit];
}

// Microseconds in a suitable unit.
function time(us) {
  if (us === null || us === undefined) return NONE;
  if (us >= 1e6) return short(us / 1e6) + " s";
  if (us >= 1e3) return short(us / 1e3) + " ms";
  return short(us) + " us";
}

function quantity(value, unit) {
  if (unit === "us") return time(value);
  if (unit === "bytes") return bytes(value);
  return short(value) + (unit === "percent" ? " %" : " " + unit);
}

// Makes an element with properties ("class", "text", attributes) and children.
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "text")
      made.textContent = value;
    else if (name === "class")
      made.className = value;
    else
      made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A list of names and values, for instance of settings.
function facts(pairs) {
  const list = element("dl", {class: "facts"});
  for (const [name, value] of pairs) {
    if (value === "" || value === null || value === undefined) continue;
    list.append(element("div", {}, element("dt", {text: name}), element("dd", {text: wordOf(value)})));
  }
  return list;
}

function wordOf(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  if (value !== null && typeof value === "object") return JSON.stringify(value);
  return String(value);
}

// Of an even number of values it is the mean of the two in the middle, with six digits as all results have them.
function median(values) {
  const sorted = values.slice().sort((a, b) => a - b), half = sorted.length >> 1;
  if (sorted.length % 2 === 1) return sorted[half];
  return sorted.length === 0 ? null : Number(((sorted[half - 1] + sorted[half]) / 2).toPrecision(6));
}
