// Puts the page together: data, selection, panes, keys.

function makeTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const names = ["auto", "light", "dark"];
  let chosen = "auto";
  const apply = () => { document.documentElement.dataset.theme = chosen === "auto" ? (system.matches ? "dark" : "light") : chosen; };
  system.addEventListener("change", apply);
  const next = () => {
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    button.textContent = chosen;
    apply();
  };
  button.onclick = next;
  apply();
  return next;
}

function makeLegend() {
  const legend = document.createElement("span");
  legend.className = "legend";
  for (const half of ["forward", "backward", "both"]) {
    const chip = document.createElement("i");
    chip.className = half;
    legend.append(chip, half);
  }
  return legend;
}

function summaryOf(model) {
  const kernels = model.steps.filter((step) => step.kind === "kernel").length;
  const counted = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  const back = model.nodes.filter((node) => node.isBackward).length;
  const took = model.steps.filter((step) => model.scopes[step.scope].owner === null).reduce((sum, step) => sum + (step.time || 0), 0);
  return [
    `${counted(model.nodes.length, "value")}${back ? `, ${back} backward` : ""}`,
    `${counted(model.steps.length, "step")}, ${counted(kernels, "kernel")}`,
    took ? `${duration(took)} in all` : "times not measured",
  ].join("; ");
}

async function main() {
  const nextTheme = makeTheme(document.getElementById("theme"));
  const model = makeModel(await readData());
  const selection = makeSelection(model);
  const summary = document.getElementById("summary");
  summary.textContent = summaryOf(model);
  summary.title = Object.entries(model.machine || {}).map(([what, value]) => `${what}: ${value}`).join("\n");
  const say = makeDetails(model, selection, document.getElementById("details"));

  const source = makePane("Source");
  const kernels = makePane("Kernels");
  const graph = makePane("Graph");
  graph.head.append(makeLegend());
  const isWide = innerWidth >= 1000;
  const texts = ["mlir", "llvm-opt", "asm"].map((stage) => {
    const select = document.createElement("select");
    for (const [name, title] of Object.entries(STAGES)) if (name in model.texts) select.add(new Option(title, name));
    select.value = stage;
    select.setAttribute("aria-label", "Stage");
    const made = makePane(select);
    return { ...made, select, stage, name: { mlir: "MLIR", "llvm-opt": "LLVM", asm: "assembly" }[stage] };
  });
  const columns = [
    { weight: 28, panes: [{ name: "source", pane: source.pane, isShown: true }, { name: "kernels", pane: kernels.pane, isShown: true }] },
    { weight: 34, panes: [{ name: "graph", pane: graph.pane, isShown: true }] },
    ...texts.map(({ pane, name, stage }) => ({ weight: 16, panes: [{ name, pane, isShown: isWide || stage === "asm" }] })),
  ];
  const drawn = [];
  makeColumns(document.getElementById("columns"), document.getElementById("panes"), columns, () => drawn.forEach((pane) => pane.draw()));

  const panes = { source: makeSourcePane(model, selection, source.body), kernels: makeKernelPane(model, selection, kernels.body) };
  const stages = texts.map(({ body, select, stage }, k) => {
    const pane = makeTextPane(model, selection, body, `text${k}`, stage);
    select.onchange = () => pane.change(select.value);
    return pane;
  });
  drawn.push(panes.source, panes.kernels, ...stages);
  drawn.forEach((pane) => pane.draw());
  panes.graph = makeGraphPane(model, selection, graph.body, say);
  panes.texts = () => stages.filter((_, k) => texts[k].pane.style.display !== "none");
  const search = makeSearch(model, selection, panes);

  // Steps in order, whatever pane has the focus.
  function nextStep(by) {
    const order = model.steps.map((step) => step.key), now = [...selection.now.steps];
    const at = now.length ? order.indexOf(by > 0 ? Math.max(...now) : Math.min(...now)) : by > 0 ? -1 : order.length;
    const key = order[Math.max(0, Math.min(order.length - 1, at + by))];
    if (key !== undefined) selection.steps([key], "keys");
  }

  const dialog = document.getElementById("keys");
  document.getElementById("help").onclick = () => dialog.showModal();
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === "/") search.focus();
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "t") nextTheme();
    else if (event.key === "n") nextStep(1);
    else if (event.key === "p") nextStep(-1);
    else if (event.key === "Escape") selection.clear("keys");
    else if (/^[1-9]$/.test(event.key)) {
      const places = [...document.querySelectorAll("#columns .rows, #columns svg")].filter((element) => element.offsetParent || element.clientWidth);
      if (places[event.key - 1]) places[event.key - 1].focus();
    } else return;
    event.preventDefault();
  });
  document.body.dataset.ready = Math.round(performance.now()); // tests wait for it
}

main().catch((error) => {
  document.getElementById("details").textContent = `This page could not be read: ${error}`;
  throw error;
});
