// The table of steps: what each moves, computes and takes. A click on a head sorts by it.

// Of each column its head, what it says, what it is sorted by, how that is shown, and its width in em; the columns of
// times are left out where nothing was measured.
const rate = (value) => (value === null ? "" : value.toFixed(value < 10 ? 1 : 0));
const TIMES = ["time", "GB/s", "GFLOP/s"];
const COLUMNS = [
  ["step", "In the order in which they run", (s) => s.key, (_, s) => s.path, 3.2],
  ["name", "The function in MLIR, LLVM IR and assembly", (s) => s.name, String, 12],
  ["half", "Of the values that it stores", (s) => s.half, String, 5.6],
  ["time", "Measured: the shortest of several runs", (s) => s.time, duration, 5.4],
  ["moves", "Bytes that one run reads and writes", (s) => s.bytes, (n) => amount(n, "B"), 5.4],
  ["computes", "Scalar operations of one run, about", (s) => s.operations, (n) => amount(n, ""), 5.4],
  ["GB/s", "Bytes by time", (s) => (s.time ? s.bytes / s.time / 1e9 : null), rate, 4],
  ["GFLOP/s", "Operations by time", (s) => (s.time ? s.operations / s.time / 1e9 : null), rate, 5],
  ["values", "Values of the graph that it computes", (s) => s.count, String, 4],
];

function makeKernelPane(model, selection, host) {
  host.className = "table";
  const heads = document.createElement("div"), body = document.createElement("div");
  heads.className = "grid heads";
  host.append(heads, body);
  const isTimed = model.steps.some((step) => step.time !== null);
  const columns = COLUMNS.filter(([name]) => isTimed || !TIMES.includes(name));
  host.style.setProperty("--widths", columns.map((column) => `${column[4]}em`).join(" "));
  let order = model.steps.map((step) => step.key), sorted = "step", isFalling = false;

  columns.forEach(([name, title, value]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.title = title;
    button.onclick = () => {
      isFalling = sorted === name ? !isFalling : typeof value(model.steps[0] || {}) === "number" && name !== "step";
      sorted = name;
      const by = (a, b) => (a === b ? 0 : a === null ? 1 : b === null ? -1 : (a < b ? -1 : 1) * (isFalling ? -1 : 1));
      order = model.steps.map((s) => s.key).sort((a, b) => by(value(model.steps[a]), value(model.steps[b])) || a - b);
      for (const other of heads.children) delete other.dataset.sorted;
      button.dataset.sorted = isFalling ? "falling" : "rising";
      list.draw();
    };
    heads.append(button);
  });

  const list = makeRows(body, {
    label: "Kernels",
    count: () => order.length,
    fill(element, row) {
      const step = model.steps[order[row]];
      element.classList.add("grid");
      columns.forEach(([name, , value, show]) => {
        const cell = document.createElement("span");
        cell.textContent = show(value(step), step);
        if (name === "name") cell.title = `${step.kind} ${step.name}`;
        if (name === "half") cell.className = `half ${step.half}`;
        element.append(cell);
      });
      if (selection.now.steps.has(step.key)) element.classList.add("sel");
    },
    pick: (row) => selection.steps([order[row]], "kernels"),
  });
  body.addEventListener("scroll", () => { heads.scrollLeft = body.scrollLeft; });
  selection.listen((now) => {
    const row = order.findIndex((key) => now.steps.has(key));
    if (now.from !== "kernels" && row >= 0) {
      list.current = row;
      list.show(row);
    }
    list.draw();
  });
  return { draw: list.draw, go(key) { selection.steps([key], "kernels"); list.show(order.indexOf(key)); } };
}
