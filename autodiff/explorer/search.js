// The search box: values, kernels, lines of the program, and lines of the texts that are open.

const MOST_FOUND = 60; // of each kind

function makeSearch(model, selection, panes) {
  const input = document.getElementById("query"), list = document.getElementById("found");
  let found = [], current = -1;

  function search(query) {
    found = [];
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return;
    const fits = (text) => { const low = text.toLowerCase(); return words.every((word) => low.includes(word)); };
    function add(kind, candidates, textOf, act) {
      let count = 0;
      for (const candidate of candidates) {
        const text = textOf(candidate);
        if (!fits(text)) continue;
        found.push({ kind, text: text.trim().slice(0, 200), act: () => act(candidate) });
        if (++count === MOST_FOUND) break;
      }
    }
    add("kernel", model.steps, (s) => `${s.path}  ${s.name}  ${s.half}`, (s) => selection.steps([s.key], "search"));
    add("value", model.nodes, (n) => `${nodeLabel(model, n)}  ${n.half}`, (n) => selection.nodes([n.key], "search"));
    add("source", panes.source.lines(), (l) => l.text, (l) => panes.source.go(l.row));
    for (const pane of panes.texts()) {
      add(STAGES[pane.stage], pane.lines().keys(), (row) => pane.lines()[row], (row) => pane.pickAt(row));
    }
  }

  function draw() {
    list.hidden = !found.length && !input.value.trim();
    input.setAttribute("aria-expanded", !list.hidden);
    const items = found.map(({ kind, text }, k) => {
      const item = document.createElement("li"), what = document.createElement("b"), line = document.createElement("span");
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", k === current);
      item.id = `found-${k}`;
      what.textContent = kind;
      line.textContent = text;
      item.append(what, line);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); choose(k); });
      return item;
    });
    if (!items.length) items.push(Object.assign(document.createElement("li"), { textContent: "nothing found" }));
    list.replaceChildren(...items);
    if (current >= 0) {
      input.setAttribute("aria-activedescendant", `found-${current}`);
      items[current].scrollIntoView({ block: "nearest" });
    }
  }

  function choose(k) {
    if (!found[k]) return;
    current = k;
    found[k].act();
    draw();
    list.hidden = true;
    input.setAttribute("aria-expanded", false);
  }

  input.addEventListener("input", () => { search(input.value); current = found.length ? 0 : -1; draw(); });
  input.addEventListener("focus", () => { if (input.value) draw(); });
  input.addEventListener("blur", () => { list.hidden = true; });
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && found.length) {
      current = (current + by + found.length) % found.length;
      draw();
    } else if (event.key === "Enter") choose(current);
    else if (event.key === "Escape") { input.value = ""; found = []; input.blur(); }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { focus() { input.focus(); input.select(); } };
}
