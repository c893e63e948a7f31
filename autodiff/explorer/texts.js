// Panes of text: the user's source, and any stage of the program from tape to assembly.

const STAGES = {
  tape: "Tape", graph: "Graph as recorded", optimized: "Graph, optimised", fused: "Steps and buffers", mlir: "MLIR",
  llvm: "LLVM IR, as emitted", "llvm-opt": "LLVM IR", asm: "Assembly", stats: "Statistics",
};

// The user's functions, one after the other, under their files' names.
function makeSourcePane(model, selection, host) {
  const rows = [];
  model.sources.forEach((source, k) => {
    const isSame = k > 0 && model.sources[k - 1].file === source.file;
    if (k && !isSame) rows.push({ head: "" });
    rows.push({ head: isSame ? "⋮" : source.name, title: source.file });
    source.text.replace(/\n$/, "").split("\n").forEach((text, j) => rows.push({ text, source: k, line: source.first_line + j }));
  });
  if (!rows.length) rows.push({ head: "no line of the program is known" });
  const list = makeRows(host, {
    label: "Source",
    count: () => rows.length,
    fill(element, number) {
      const row = rows[number];
      if (row.head !== undefined) {
        element.className = "row head";
        element.textContent = row.head;
        element.title = row.title || "";
        return;
      }
      element.textContent = row.text || " ";
      element.dataset.number = row.line;
      if (model.bySource[row.source].has(row.line)) element.classList.add("linked");
      if (isMarked(row)) element.classList.add("sel");
      else if (selection.now.callers.has(placeKey(row))) element.classList.add("kin");
    },
    pick(number) {
      const row = rows[number];
      if (row.head !== undefined) return list.draw();
      selection.place(row.source, row.line, "source");
    },
  });
  const isMarked = (row) => selection.now.places.has(placeKey(row));
  host.classList.add("code");
  selection.listen((now) => {
    const first = rows.findIndex((row) => row.head === undefined && isMarked(row));
    if (now.from !== "source" && first >= 0) {
      // Of a value the innermost line comes first; other lines called that one.
      const inner = now.nodes.size === 1 ? model.nodes[[...now.nodes][0]].lines[0] : null;
      const row = inner ? rows.findIndex((r) => r.source === inner.source && r.line === inner.line) : -1;
      list.current = row >= 0 ? row : first;
      list.show(list.current);
    }
    list.draw();
  });
  return {
    lines: () => rows.flatMap((row, k) => (row.head === undefined ? [{ text: row.text, row: k, place: row }] : [])),
    go(row) { list.current = row; list.show(row); selection.place(rows[row].source, rows[row].line, "source"); },
    draw: list.draw,
  };
}

// One stage of the program; which one may be changed.
function makeTextPane(model, selection, host, name, stage) {
  let text = model.texts[stage];
  const marks = () => selection.now;
  const list = makeRows(host, {
    label: STAGES[stage],
    count: () => text.lines.length,
    fill(element, row) {
      element.textContent = text.lines[row] || " ";
      element.dataset.number = row + 1;
      const mark = markOf(row);
      if (mark) element.classList.add(mark);
    },
    pick,
  });
  function pick(row) {
    const run = runAt(text, row);
    const place = run ? null : placeIn(model, text.lines[row]);
    if (run && run.nodes.length && !isOfSteps()) selection.nodes(run.nodes, name);
    else if (run && run.steps.length) selection.steps(run.steps, name);
    else if (place) selection.place(place.source, place.line, name);
    else selection.clear(name);
  }
  host.classList.add("code");

  // A line of code is of a value, in a function that is of steps; a line of the steps is of all their values.
  const isOfSteps = () => stage === "fused";
  let marked = new Map();
  function remark() {
    marked = new Map();
    const now = marks(), has = (keys, set) => keys.some((key) => set.has(key));
    // Where all of a kernel is selected its lines are marked alike.
    const isWhole = new Map([...now.steps].map((key) => [key, model.steps[key].nodes.every((node) => now.nodes.has(node))]));
    for (const run of text.runs) {
      const isInStep = has(run.steps, now.steps);
      if (has(run.nodes, now.nodes) && !(isInStep && !isOfSteps() && run.steps.every((key) => isWhole.get(key)))) marked.set(run, "sel");
      else if (isInStep) marked.set(run, isOfSteps() ? "sel" : "kernel");
      else if (!run.steps.length && has(run.nodes, now.kin)) marked.set(run, "kin");
    }
  }
  function markOf(row) {
    const run = runAt(text, row);
    if (run) return marked.get(run) || "";
    if (!marks().places.size || text.runs.length) return "";
    const place = placeIn(model, text.lines[row]);
    return place && marks().places.has(placeKey(place)) ? "sel" : "";
  }
  function first() {
    for (const mark of ["sel", "kernel"]) for (const run of text.runs) if (marked.get(run) === mark) return run.first;
    if (text.runs.length || !marks().places.size) return -1;
    return text.lines.findIndex((_, row) => markOf(row));
  }
  function update(scrolls) {
    remark();
    const row = scrolls ? first() : -1;
    if (row >= 0) {
      list.current = row;
      list.show(row);
    }
    list.draw();
  }
  selection.listen((now) => update(now.from !== name));
  return {
    get stage() { return stage; },
    change(to) {
      stage = to;
      text = model.texts[to];
      host.setAttribute("aria-label", STAGES[to]);
      list.reset();
      update(true);
    },
    lines: () => text.lines,
    pickAt(row) { list.current = row; pick(row); list.show(row); list.draw(); },
    draw: list.draw,
  };
}
