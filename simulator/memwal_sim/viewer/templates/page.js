"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const $ = (id) => document.getElementById(id);
  const last = facts.steps.length;
  const COLOURS = 8, LONG = 24, TAIL = 6, CROWD = 8;
  const GONE = -1;
  const text = (number) => facts.texts[number];
  let at = 0;

  function el(tag, cls, content) {
    const made = document.createElement(tag);
    if (cls) made.className = cls;
    if (content !== undefined) made.textContent = content;
    return made;
  }
  const colour = (actor) => `a${actor % COLOURS}`;
  const digits = new Intl.NumberFormat("en");
  const size = (bytes) => (bytes < 10240 ? `${digits.format(bytes)} B` : `${digits.format(Math.round(bytes / 1024))} KiB`);
  const frame = (n) => (n === 0 ? facts.start : facts.steps[n - 1]);
  const isLeaf = (n) => n[2].length === 0 && n[3] === null;

  // Trees of decoded bytes.
  function rowsOf(number) {
    const [columns, rows, left] = facts.rows[number];
    const wide = el("div", "wide"), table = wide.appendChild(el("table"));
    const head = table.appendChild(el("tr"));
    for (const name of columns) head.append(el("th", "", name));
    for (const row of rows) {
      const line = table.appendChild(el("tr"));
      for (const value of row) line.append(el("td", "", value));
    }
    if (left) wide.append(el("p", "where", `${digits.format(left)} more rows`));
    return wide;
  }
  const weights = new Map();
  function weight(number) {
    if (!weights.has(number)) weights.set(number, facts.nodes[number][2].reduce((sum, child) => sum + weight(child), 1));
    return weights.get(number);
  }
  function preview(children) {
    const leaves = children.map((child) => facts.nodes[child]).filter((found) => isLeaf(found) && text(found[1]));
    return leaves.slice(0, 4).map((found) => ` ${text(found[0])}: ${text(found[1])}`).join(",");
  }
  function item(number, depth, crowded) {
    const found = facts.nodes[number], [name, value, children, rows] = found;
    const li = el("li");
    const label = (parent) => {
      parent.append(el("span", "key", text(name)));
      if (text(value)) parent.append((text(name) ? ": " : "") + text(value));
    };
    if (isLeaf(found)) {
      li.className = "leaf";
      label(li);
      return li;
    }
    const details = li.appendChild(el("details")), summary = details.appendChild(el("summary"));
    label(summary);
    summary.append(el("span", "preview", preview(children)));
    const fill = () => {
      if (details.childElementCount > 1) return;
      if (rows !== null) details.append(rowsOf(rows));
      if (children.length) details.append(tree(children, depth + 1));
    };
    details.open = !crowded && (depth === 0 || weight(number) <= 12);
    if (details.open) fill();
    else details.addEventListener("toggle", fill, { once: true });
    return li;
  }
  function tree(numbers, depth = 0) {
    const list = el("ul", "tree");
    const crowded = depth > 0 && numbers.length > 1 && text(facts.nodes[numbers[0]][0]) === "0";
    for (const number of numbers) list.append(item(number, depth, crowded));
    return list;
  }
  function bytes(number) {
    const [, , , nodes, problem, dump] = facts.blobs[number];
    const made = document.createDocumentFragment();
    if (problem) made.append(el("p", "refusal", `cannot be decoded: ${problem}`));
    if (nodes.length) made.append(tree(nodes));
    if (dump) made.append(el("pre", "", dump));
    return made;
  }
  function titled(title, number) {
    const [kind, length, summary] = facts.blobs[number];
    const made = document.createDocumentFragment(), head = made.appendChild(el("h3", "", `${title}: ${kind} `));
    head.append(el("small", "", [summary, size(length)].filter(Boolean).join(" · ")));
    made.append(bytes(number));
    return made;
  }

  // One step.
  function violationBox(number) {
    const [clause, oracle, reason, shown] = facts.violations[number];
    const box = el("div", "box bad"), head = box.appendChild(el("p"));
    head.append(el("b", "", `✗ ${clause} `), oracle);
    box.append(el("p", "", reason));
    const list = box.appendChild(el("ul", "tree"));
    for (const [name, value] of shown) {
      const line = list.appendChild(el("li"));
      line.append(el("span", "key", name), `: ${value}`);
    }
    return box;
  }
  const verdictsAt = (n) => facts.verdicts[frame(n).verdicts];
  function newlyBroken(n) {
    const before = n ? verdictsAt(n - 1) : [];
    return verdictsAt(n).filter((found, oracle) => found !== GONE && (before[oracle] ?? GONE) === GONE);
  }
  function request(step) {
    const [path, name] = facts.paths[step.path];
    const made = document.createDocumentFragment();
    const named = Object.fromEntries(facts.fields.map((field, place) => [field, text(step.facts[place])]));
    const target = step.target === null ? "" : ` → ${facts.paths[step.target][1]}`;
    const line = made.appendChild(el("p", "request"));
    if (step.fault) line.append(el("span", "tag fault", step.fault));
    line.append(`${named.operation ?? ""} ${name}${target}`);
    made.append(el("p", "where", path || "/"));
    return made;
  }
  function payload(step) {
    const made = document.createDocumentFragment();
    if (step.sent !== null) made.append(titled("Sent", step.sent));
    if (step.got?.blob !== undefined) made.append(titled("Received", step.got.blob));
    if (step.got?.names !== undefined) {
      const names = facts.nodes[step.got.names][2];
      made.append(el("h3", "", `Received: ${names.length} ${names.length === 1 ? "name" : "names"}`), tree(names));
    }
    return made;
  }
  function showStep() {
    const body = $("step-body");
    body.replaceChildren();
    if (at === 0) {
      $("step-title").textContent = "Before the first step";
      for (const number of newlyBroken(0)) body.append(violationBox(number));
      body.append($("about").content.cloneNode(true));
      return;
    }
    const step = facts.steps[at - 1];
    $("step-title").textContent = `Step ${at}, ${facts.actors[step.actor]}`;
    for (const number of newlyBroken(at)) body.append(violationBox(number));
    if (at === facts.divergedAt) {
      const box = body.appendChild(el("div", "box odd"));
      box.append(el("b", "", "≠ The replay diverges from the trace here, or right after this step"));
    }
    body.append(request(step));
    for (const note of step.notes) {
      const line = body.appendChild(el("p", `event ${colour(step.actor)}`));
      line.append(el("b", "", "◆ "), text(note));
    }
    body.append(payload(step), el("h3", "", "As a step of the trace"));
    const list = body.appendChild(el("dl", "facts"));
    facts.fields.forEach((field, place) => {
      const pair = list.appendChild(el("div"));
      pair.append(el("dt", "", field), el("dd", "", text(step.facts[place]) || "none"));
    });
  }

  // Actors and oracles: built once, then changed in place.
  const actors = facts.actors.map((name, number) => {
    const row = $("actors").appendChild(el("li", `actor ${colour(number)}`));
    row.append(el("i"), el("b", "", name), el("span"));
    return row;
  });
  function statesAt(n) {
    const found = [...facts.start.states];
    for (let i = 0; i < n; i++) found[facts.steps[i].actor] = facts.steps[i].state;
    return found;
  }
  function showActors() {
    const moving = at ? facts.steps[at - 1].actor : -1;
    statesAt(at).forEach((state, number) => {
      const row = actors[number];
      row.lastChild.textContent = text(state);
      row.classList.toggle("now", number === moving);
      row.classList.toggle("over", text(state).startsWith("ended"));
    });
    for (const row of $("actors").querySelectorAll(".late")) row.remove();
    for (const flying of frame(at).flying) {
      const row = $("actors").appendChild(el("li", "actor late"));
      row.append(el("i"), el("span", "", `⇢ under way: ${text(flying)}`));
    }
  }
  const SVG = "http://www.w3.org/2000/svg";
  function strip(oracle) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${last + 1} 8`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    let path = "";
    for (let n = 0, from = -1; n <= last + 1; n++) {
      const broken = n <= last && verdictsAt(n)[oracle] !== GONE;
      if (broken && from < 0) from = n;
      if (!broken && from >= 0) { path += `M${from} 0H${n}V8H${from}z`; from = -1; }
    }
    svg.appendChild(document.createElementNS(SVG, "path")).setAttribute("d", path);
    const now = svg.appendChild(document.createElementNS(SVG, "rect"));
    now.setAttribute("height", "8");
    now.setAttribute("width", String(Math.max((last + 1) / 112, 0.02) * 1.5));
    return svg;
  }
  const oracles = facts.oracles.map((name, number) => {
    const row = $("oracles").appendChild(el("li", "oracle")), line = row.appendChild(el("div"));
    line.append(el("b"), el("em", "", name), strip(number));
    row.append(el("p"));
    return row;
  });
  function showOracles() {
    const verdicts = verdictsAt(at), broken = verdicts.filter((found) => found !== GONE).length;
    $("oracles-count").textContent = broken ? `${broken} of ${verdicts.length} violated` : `all ${verdicts.length} hold`;
    verdicts.forEach((found, number) => {
      const row = oracles[number], violated = found !== GONE;
      row.classList.toggle("no", violated);
      row.querySelector("b").textContent = violated ? "✗" : "✓";
      row.querySelector("b").setAttribute("aria-label", violated ? "violated" : "holds");
      row.lastChild.textContent = violated ? `${facts.violations[found][0]}: ${facts.violations[found][2]}` : "";
      row.lastChild.hidden = !violated;
      row.querySelector("rect").setAttribute("x", String(at));
    });
  }

  // The store.
  function contentsAt(n) {
    const found = new Map();
    for (let i = 0; i <= n; i++) {
      const changes = frame(i).contents;
      for (let j = 0; j < changes.length; j += 2) {
        if (changes[j + 1] === GONE) found.delete(changes[j]);
        else found.set(changes[j], changes[j + 1]);
      }
    }
    return found;
  }
  const lastChange = [0];
  for (const step of facts.steps) lastChange.push(step.contents.length ? lastChange.length : lastChange[lastChange.length - 1]);
  const folded = new Map(), opened = new Set(), whole = new Set();
  const order = new Intl.Collator("en", { numeric: true });
  function groupsOf(path) {
    const [full, , table, region] = facts.paths[path];
    const groups = [];
    let rest = full;
    if (region) {
      if (table) groups.push(`table ${table}`);
      groups.push(`region ${region}`);
      rest = full.slice((table ? table.length + 1 : 0) + "_mem_wal/".length + region.length + 1);
    }
    const [folder, ...inner] = rest.split("/");
    return inner.length ? [...groups, folder] : groups;
  }
  function object(path, blob, state) {
    const [full, , , , name] = facts.paths[path], li = el("li", `object ${state}`);
    const sign = { new: "+", other: "~", gone: "−" }[state] ?? "";
    const word = { new: "new", other: "changed", gone: "deleted" }[state] ?? "";
    const mark = el("i", "", sign);
    if (word) mark.setAttribute("aria-label", word);
    if (state === "gone") {
      const line = li.appendChild(el("div", "gone"));
      line.append(mark, el("span", "", name));
      line.title = full;
      return li;
    }
    const [kind, length, summary] = facts.blobs[blob];
    const details = li.appendChild(el("details")), line = details.appendChild(el("summary"));
    line.title = full;
    line.append(mark, el("span", "", name), el("span", "what", summary || kind), el("span", "size", size(length)));
    const fill = () => {
      const body = details.appendChild(el("div", "bytes"));
      body.append(el("p", "where", `${full} · ${kind}`), bytes(blob));
    };
    if (opened.has(path)) { details.open = true; fill(); }
    line.addEventListener("click", () => {
      if (details.open) opened.delete(path);
      else { opened.add(path); if (details.childElementCount === 1) fill(); }
    });
    return li;
  }
  function showStore() {
    const now = contentsAt(at), before = at ? contentsAt(at - 1) : now;
    const rows = [...now].map(([path, blob]) => {
      const old = before.get(path);
      return [path, blob, old === undefined ? "new" : old === blob ? "" : "other"];
    });
    for (const path of before.keys()) if (!now.has(path)) rows.push([path, GONE, "gone"]);
    rows.sort((a, b) => order.compare(facts.paths[a[0]][1], facts.paths[b[0]][1]));
    const total = [...now.values()].reduce((sum, blob) => sum + facts.blobs[blob][1], 0);
    $("store-count").textContent = `${digits.format(now.size)} objects, ${size(total)}`;
    const root = { key: "", groups: new Map(), rows: [], count: 0, touched: false };
    for (const row of rows) {
      let group = root;
      group.count += 1;
      for (const name of groupsOf(row[0])) {
        const key = `${group.key}\n${name}`;
        if (!group.groups.has(name)) group.groups.set(name, { key, name, groups: new Map(), rows: [], count: 0, touched: false });
        group = group.groups.get(name);
        group.count += 1;
        group.touched ||= row[2] !== "";
      }
      group.rows.push(row);
    }
    $("store").replaceChildren(inside(root));
  }
  function inside(group) {
    const made = document.createDocumentFragment();
    for (const child of group.groups.values()) {
      const details = made.appendChild(el("details", "group")), line = details.appendChild(el("summary"));
      line.append(child.name, el("small", "", ` ${child.count}`));
      details.open = folded.get(child.key) ?? (child.touched || group.groups.size <= CROWD);
      details.append(inside(child));
      line.addEventListener("click", () => folded.set(child.key, !details.open));
    }
    const list = made.appendChild(el("ul", "objects"));
    const short = group.rows.length > LONG && !whole.has(group.key);
    const shown = short ? group.rows.filter((row, i) => row[2] || opened.has(row[0]) || i >= group.rows.length - TAIL) : group.rows;
    for (const row of shown) list.append(object(...row));
    if (short) {
      const more = made.appendChild(el("button", "more", `show ${group.rows.length - shown.length} more`));
      more.type = "button";
      more.addEventListener("click", () => { whole.add(group.key); showStore(); });
    }
    return made;
  }
  function showGhosts() {
    const [, value, children] = facts.nodes[frame(at).ghosts];
    $("ghosts").replaceChildren(children.length ? tree(children) : el("p", "where", text(value)));
  }

  // Moving.
  const scroll = $("scroll"), cursor = $("cursor");
  function go(n, centre) {
    const next = Math.max(0, Math.min(last, n));
    $(`s${at}`).setAttribute("aria-selected", "false");
    at = next;
    $(`s${at}`).setAttribute("aria-selected", "true");
    scroll.setAttribute("aria-activedescendant", `s${at}`);
    const top = facts.tops[at], height = facts.heights[at];
    cursor.setAttribute("y", String(top));
    cursor.setAttribute("height", String(height));
    cursor.classList.toggle("broken", newlyBroken(at).length > 0);
    const room = scroll.clientHeight - 60, seen = top - scroll.scrollTop;
    if (centre || seen < 40 || seen + height > room - 20) scroll.scrollTop = Math.max(0, top - room / 2);
    $("slider").value = String(at);
    $("slider").setAttribute("aria-valuetext", $(`s${at}`).getAttribute("aria-label"));
    $("place").textContent = `${at} / ${last}`;
    peek(null);
    if (!planned) planned = requestAnimationFrame(show);
  }
  // The panels follow once per frame, however fast the steps go by.
  let planned = 0, shown = {};
  function show() {
    planned = 0;
    const store = `${lastChange[at]} ${lastChange[at] === at}`, ghosts = frame(at).ghosts;
    showStep();
    showActors();
    showOracles();
    if (shown.store !== store) showStore();
    if (shown.ghosts !== ghosts) showGhosts();
    shown = { store, ghosts };
    $("panels").scrollTop = 0;
    history.replaceState(null, "", `#${at}`);
    document.body.dataset.step = String(at);
  }
  function seek(test, direction = 1) {
    for (let n = at + direction; n > 0 && n <= last; n += direction) if (test(facts.steps[n - 1], n)) return n;
    for (let n = direction > 0 ? 1 : last; n > 0 && n <= last; n += direction) if (test(facts.steps[n - 1], n)) return n;
    return at;
  }
  const mine = (step) => step.actor === (at ? facts.steps[at - 1].actor : step.actor);
  const moves = {
    first: () => 0,
    last: () => last,
    on: () => at + 1,
    back: () => at - 1,
    far: () => at + 10,
    near: () => at - 10,
    next: () => seek(mine),
    previous: () => seek(mine, -1),
    change: () => seek((step) => step.contents.length > 0),
    fault: () => seek((step) => step.fault !== ""),
    violation: () => facts.violationAt ?? at,
  };
  const jumps = new Set(["first", "last", "fault", "violation"]);
  const keys = {
    ArrowRight: "on", ArrowDown: "on", j: "on", ArrowLeft: "back", ArrowUp: "back", k: "back", Home: "first", End: "last",
    PageDown: "far", PageUp: "near", n: "next", p: "previous", c: "change", f: "fault", v: "violation",
  };
  const move = (name) => go(moves[name](), jumps.has(name));
  function theme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches, root = document.documentElement;
    root.dataset.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  }
  function help() {
    $("help").hidden = !$("help").hidden;
    $("keys").setAttribute("aria-expanded", String(!$("help").hidden));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "t") theme();
    else if (event.key === "?") help();
    else if (event.key === "Escape") peek(null);
    else if (keys[event.key]) move(keys[event.key]);
    else return;
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", () => move(button.dataset.go));
  $("theme").addEventListener("click", theme);
  $("keys").addEventListener("click", help);
  $("slider").addEventListener("input", () => go(Number($("slider").value)));
  const rowOf = (event) => event.target.closest?.(".row");
  const numberOf = (row) => Number(row.id.slice(1));
  $("diagram").addEventListener("click", (event) => { const row = rowOf(event); if (row) go(numberOf(row)); });

  // Bytes of the request under the pointer.
  let waiting = 0, over = null;
  function peek(row, x, y) {
    clearTimeout(waiting);
    const box = $("peek");
    box.hidden = true;
    over = row;
    if (!row) return;
    waiting = setTimeout(() => {
      const step = facts.steps[numberOf(row) - 1];
      box.replaceChildren(request(step), payload(step));
      box.hidden = false;
      const left = x + 24 + box.offsetWidth > innerWidth ? Math.max(8, x - 24 - box.offsetWidth) : x + 24;
      box.style.left = `${left}px`;
      box.style.top = `${Math.max(8, Math.min(y + 14, innerHeight - box.offsetHeight - 8))}px`;
    }, 220);
  }
  $("diagram").addEventListener("mousemove", (event) => {
    const row = rowOf(event);
    if (row !== over) peek(row && numberOf(row) !== at ? row : null, event.clientX, event.clientY);
  });
  scroll.addEventListener("mouseleave", () => peek(null));
  scroll.addEventListener("scroll", () => peek(null), { passive: true });
  const asked = () => Number.parseInt(location.hash.slice(1), 10) || 0;
  addEventListener("hashchange", () => { if (asked() !== at) go(asked(), true); });
  go(asked(), true);
})();
