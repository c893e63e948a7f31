// The list that takes the drawing's place where a page's policy forbids workers or WebAssembly: the same boxes, by rank.

function makeBoxList(model, selection, host, { toggle, choose }) {
  const element = document.createElement("div");
  element.id = "graph";
  host.append(element);
  let scene = null, rows = [];

  const list = makeRows(element, {
    label: "Graph, as a list",
    count: () => rows.length,
    fill(line, row) {
      const { id, depth } = rows[row], box = scene.boxes.get(id), cluster = scene.clusters.find((c) => c.id === id);
      const chip = document.createElement("span");
      chip.className = `half ${(box || cluster).half}`;
      chip.textContent = "  ";
      line.append("    ".repeat(depth), chip, ` ${box ? box.label : `▾ ${cluster.label}`}`);
      const { nodes, steps, kin } = selection.now;
      const isSelected = box && box.node !== undefined ? nodes.has(box.node) : steps.has(box ? box.step : cluster.step);
      if (isSelected && !(box && box.isMore)) line.classList.add("sel");
      else if (box && kin.has(box.node)) line.classList.add("kin");
    },
    pick: (row) => choose(rows[row].id),
  });
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && rows.length) { event.preventDefault(); toggle(rows[list.current].id); }
  });
  element.addEventListener("dblclick", () => rows.length && toggle(rows[list.current].id));

  // An open step is followed by what lies in it.
  function paint(newScene, _, keep) {
    scene = newScene;
    rows = [];
    const done = new Set();
    const put = (parent, depth) => {
      for (const id of scene.order) {
        const box = scene.boxes.get(id);
        let inner = box.parent;
        while (inner !== parent && inner !== null && clusterOf(inner).parent !== parent) inner = clusterOf(inner).parent;
        if (box.parent === parent) rows.push({ id, depth });
        else if (inner !== null && inner !== parent && !done.has(inner)) {
          done.add(inner);
          rows.push({ id: `c${inner}`, depth });
          put(inner, depth + 1);
        }
      }
    };
    const clusterOf = (step) => scene.clusters.find((c) => c.step === step);
    put(null, 0);
    const at = rows.findIndex(({ id }) => keep && id.slice(1) === keep.slice(1) && "sc".includes(id[0]));
    list.current = Math.max(0, at);
    list.draw();
  }

  return {
    paint,
    element,
    fit() {},
    nearer() {},
    mark(moves) {
      const { nodes, steps } = selection.now;
      const row = rows.findIndex(({ id }) => {
        const box = scene.boxes.get(id);
        return box && (box.node !== undefined ? nodes.has(box.node) : !box.isMore && steps.has(box.step));
      });
      if (moves && row >= 0) { list.current = row; list.show(row); }
      list.draw();
    },
    get current() { return rows.length ? rows[list.current].id : null; },
    get shown() { return new Map(rows.map(({ id }) => [id, null])); },
  };
}
