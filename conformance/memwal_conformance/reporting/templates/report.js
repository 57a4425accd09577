"use strict";
const all = [...document.querySelectorAll(".case")];
const search = document.getElementById("search");
const picks = [...document.querySelectorAll(".pick")];
const shown = () => all.filter(one => !one.hidden);

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const off = name => new Set(picks.filter(p => p.dataset[name] && p.getAttribute("aria-pressed") === "false").map(p => p.dataset[name]));
  const verdicts = off("verdict"), revisions = off("revision");
  for (const one of all) {
    const { verdict, revision, words: text } = one.dataset;
    one.hidden = verdicts.has(verdict) || revisions.has(revision) || !words.every(word => text.includes(word));
  }
  const left = shown().length;
  document.getElementById("count").textContent = left === all.length ? `${left}` : `${left} of ${all.length}`;
  document.getElementById("nothing").hidden = left > 0;
}

function everything() {
  search.value = "";
  picks.forEach(pick => pick.setAttribute("aria-pressed", "true"));
  filter();
}

function goto(one) {
  if (!one) return;
  const summary = one.querySelector("summary");
  summary.focus({ preventScroll: true });
  summary.scrollIntoView({ block: "nearest" });
}

function move(step, wanted) {
  const here = document.activeElement?.closest(".case");
  const at = here ? all.indexOf(here) : step > 0 ? -1 : all.length;
  const order = step > 0 ? all.slice(at + 1) : all.slice(0, at).reverse();
  goto(order.find(one => !one.hidden && (!wanted || wanted(one))));
}

function theme() {
  const root = document.documentElement;
  const dark = getComputedStyle(root).colorScheme === "dark"
    || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = dark ? "light" : "dark";
}

function help() {
  const box = document.getElementById("help");
  box.hidden = !box.hidden;
  document.getElementById("keys").setAttribute("aria-expanded", String(!box.hidden));
}

function reveal() {
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!wanted) return;
  if (wanted.hidden) everything();
  for (let up = wanted; up; up = up.parentElement) if (up.tagName === "DETAILS") up.open = true;
  wanted.scrollIntoView({ block: "start" });
}

search.addEventListener("input", filter);
picks.forEach(pick => pick.addEventListener("click", () => {
  pick.setAttribute("aria-pressed", String(pick.getAttribute("aria-pressed") !== "true"));
  filter();
}));
document.querySelectorAll("[data-clause]").forEach(button => button.addEventListener("click", () => {
  everything();
  search.value = button.dataset.clause;
  filter();
  document.getElementById("cases-title").scrollIntoView({ block: "start" });
  goto(shown()[0]);
}));
document.querySelectorAll(".copy").forEach(button => button.addEventListener("click", async () => {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "selected";
  }
}));
document.getElementById("theme").addEventListener("click", theme);
document.getElementById("keys").addEventListener("click", help);
addEventListener("hashchange", reveal);
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === search) {
    if (event.key === "Escape") { everything(); search.blur(); }
    if (event.key === "Enter") goto(shown()[0]);
    return;
  }
  const act = {
    "/": () => search.focus(), j: () => move(1), k: () => move(-1), t: theme, "?": help, a: everything,
    f: () => move(1, one => one.dataset.verdict !== "PASS"),
  }[event.key];
  if (act) { event.preventDefault(); act(); }
});
filter();
reveal();
