// The drawing of the graph: SVG, of which only what is in view is in the document. Pan and zoom are d3-zoom's.

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const MOST_FAR = 24; // far edges of a selection that are drawn whole; of more only stubs are

// toggle(step), choose(box): what a double click and a click do.
function makeDrawing(model, selection, host, { toggle, choose }) {
  const root = svg("svg", { tabindex: 0, role: "application", "aria-label": "Graph: arrows go from box to box, Enter opens a kernel" });
  root.id = "graph";
  const stop = (offset, name) => svg("stop", { offset, style: `stop-color: var(--${name})` });
  root.append(svg("defs", {}, svg("linearGradient", { id: "both" }, stop("50%", "forward"), stop("50%", "backward"))));
  const layers = ["clusters", "edges", "boxes"].map((name) => svg("g", { class: name }));
  const view = svg("g", {}, ...layers);
  root.append(view);
  host.append(root);

  let scene = null, places = null, current = null;
  let items = []; // {left, top, right, bottom, element, layer, isIn}
  let shown = new Map(); // id -> item of a box or an open cluster

  const zoom = d3.zoom().scaleExtent([0.02, 3]).on("zoom", ({ transform }) => {
    view.setAttribute("transform", transform);
    cull(transform);
  });
  const canvas = d3.select(root).call(zoom).on("dblclick.zoom", null);

  function cull({ k, x, y }) {
    const left = -x / k, top = -y / k, right = left + root.clientWidth / k, bottom = top + root.clientHeight / k;
    root.classList.toggle("tiny", k < 0.3);
    for (const item of items) {
      const isIn = item.left < right && item.right > left && item.top < bottom && item.bottom > top;
      if (isIn === item.isIn) continue;
      item.isIn = isIn;
      if (isIn) item.layer.append(item.element);
      else item.element.remove();
    }
  }

  function boxElement(id, kind, text, [x, y, w, h], about) {
    const element = svg("g", { class: kind, id: `box-${id}`, role: "button", "aria-label": about }, svg("rect", { x, y, width: w, height: h, rx: 4 }));
    const label = svg("text", { x: x + 8, y: kind.includes("open") ? y + 14 : y + h / 2 + 4 });
    label.textContent = text;
    const title = svg("title", {});
    title.textContent = about;
    element.append(label, title);
    element.addEventListener("click", () => { go(id, false); choose(id); });
    element.addEventListener("dblclick", () => toggle(id));
    return element;
  }

  // Draws a scene where Graphviz put it. `keep` is the box that stays where it is on the screen.
  function paint(newScene, newPlaces, keep) {
    const before = keep && placeOf(keep);
    scene = newScene;
    places = newPlaces;
    items = [];
    shown = new Map();
    for (const layer of layers) layer.replaceChildren();
    const add = (element, layer, [x, y, w, h]) => {
      const item = { left: x, top: y, right: x + w, bottom: y + h, element, layer, isIn: false };
      items.push(item);
      return item;
    };
    for (const cluster of scene.clusters) {
      const place = places.clusters.get(cluster.id);
      if (!place) continue;
      const kind = `box open step ${cluster.half}`;
      shown.set(cluster.id, add(boxElement(cluster.id, kind, `▾ ${cluster.label}`, place, `${cluster.label}, open`), layers[0], place));
    }
    for (const box of scene.boxes.values()) {
      const kind = ["box", box.node === undefined ? (box.isMore ? "more" : "step") : "value", box.isBackward ? "backward" : box.half === "both" ? "both" : "forward"];
      if (box.isOutput) kind.push("output");
      const place = places.boxes.get(box.id);
      shown.set(box.id, add(boxElement(box.id, kind.join(" "), box.label, place, `${box.label}, ${box.half}`), layers[2], place));
    }
    for (const edge of scene.edges) {
      const a = places.boxes.get(edge.from), b = places.boxes.get(edge.to);
      const isDown = !scene.boxes.get(edge.from).isBackward;
      if (edge.isFar) {
        const [x, y, u, v] = [a[0] + a[2], a[1] + a[3] / 2, b[0], b[1] + b[3] / 2];
        edge.stub = `M${x},${y}h10M${u},${v}h-10`;
        edge.whole = `M${x},${y}C${x + 60},${y} ${u - 60},${v} ${u},${v}`;
        edge.element = svg("path", { class: "edge far", d: edge.stub });
      } else {
        const [x, y] = [a[0] + a[2] / 2, isDown ? a[1] + a[3] : a[1]], [u, v] = [b[0] + b[2] / 2, isDown ? b[1] : b[1] + b[3]];
        const m = (y + v) / 2;
        edge.element = svg("path", { class: "edge", d: `M${x},${y}C${x},${m} ${u},${m} ${u},${v}` });
      }
      const x = Math.min(a[0], b[0]), y = Math.min(a[1], b[1]);
      add(edge.element, layers[1], [x, y, Math.max(a[0] + a[2], b[0] + b[2]) - x, Math.max(a[1] + a[3], b[1] + b[3]) - y]);
    }
    if (!shown.has(current)) current = keep && shown.has(same(keep)) ? same(keep) : null;
    const after = keep && placeOf(keep);
    if (!before) fit(0.5);
    else if (after) {
      const t = d3.zoomTransform(root);
      canvas.call(zoom.transform, t.translate(before[0] - after[0], before[1] - after[1]));
    } else cull(d3.zoomTransform(root));
    mark(false);
  }

  // A step is `s3` while it is closed and `c3` while it is open.
  const same = (id) => (shown.has(id) ? id : id[0] === "s" ? `c${id.slice(1)}` : id[0] === "c" ? `s${id.slice(1)}` : id);
  const placeOf = (id) => places && (places.boxes.get(same(id)) || places.clusters.get(same(id)));

  function fit(least) {
    if (!places || !root.clientWidth) return;
    const k = Math.min(1, Math.max(least, Math.min(root.clientWidth / (places.width + 20), least >= 0.3 ? 1 : root.clientHeight / (places.height + 20))));
    canvas.call(zoom.transform, d3.zoomIdentity.translate(Math.max(8, (root.clientWidth - places.width * k) / 2), 8).scale(k));
  }

  // The class of each box, after the selection; scrolls to the first selected one if none is in view.
  function mark(moves) {
    if (!scene) return;
    const { nodes, steps, kin } = selection.now;
    const isSelected = (id) => {
      const box = scene.boxes.get(id);
      if (!box) return steps.has(+id.slice(1));
      return box.node !== undefined ? nodes.has(box.node) : !box.isMore && steps.has(box.step);
    };
    const selected = new Set();
    for (const [id, { element }] of shown) {
      const is = isSelected(id), box = scene.boxes.get(id);
      if (is) selected.add(id);
      element.classList.toggle("sel", is);
      element.classList.toggle("kin", !is && box !== undefined && box.node !== undefined && kin.has(box.node));
      element.classList.toggle("current", id === current);
    }
    const touches = (edge) => selected.has(edge.from) || selected.has(edge.to);
    const isMuch = scene.edges.filter((edge) => edge.isFar && touches(edge)).length > MOST_FAR;
    for (const edge of scene.edges) {
      const is = touches(edge);
      edge.element.classList.toggle("sel", is);
      if (edge.isFar) edge.element.setAttribute("d", is && !isMuch ? edge.whole : edge.stub);
    }
    if (current) root.setAttribute("aria-activedescendant", `box-${current}`);
    if (!moves || !selected.size) return;
    const boxes = [...selected].filter((id) => id[0] !== "c");
    const first = boxes[0] || [...selected][0];
    current = first;
    if (![...(boxes.length ? boxes : selected)].some(isInView)) center(first);
  }

  function isInView(id) {
    const [x, y, w, h] = placeOf(id), t = d3.zoomTransform(root);
    return t.applyX(x) >= 0 && t.applyY(y) >= 0 && t.applyX(x + Math.min(w, 60)) <= root.clientWidth && t.applyY(y + Math.min(h, 24)) <= root.clientHeight;
  }

  function center(id) {
    const [x, y, w, h] = placeOf(id);
    canvas.call(zoom.translateTo, x + Math.min(w / 2, root.clientWidth / 2), y + Math.min(h / 2, root.clientHeight / 3));
  }

  function go(id, moves = true) {
    if (!shown.has(id)) return;
    if (current && shown.has(current)) shown.get(current).element.classList.remove("current");
    current = id;
    shown.get(id).element.classList.add("current");
    root.setAttribute("aria-activedescendant", `box-${id}`);
    if (moves && !isInView(id)) center(id);
  }

  // The box in a direction: first among those that an edge leads to, then the nearest one there.
  function towards(id, dx, dy) {
    const middle = ([x, y, w, h]) => [x + w / 2, y + h / 2];
    const [x, y] = middle(placeOf(id));
    const best = (candidates) => {
      let found = null, least = Infinity;
      for (const other of candidates) {
        if (other === id) continue;
        const [u, v] = middle(placeOf(other));
        const along = (u - x) * dx + (v - y) * dy, across = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
        const distance = along + 2 * across;
        if (along > 4 && across <= along * (dx ? 1 : 40) && distance < least) [found, least] = [other, distance];
      }
      return found;
    };
    if (id[0] === "c") return dy > 0 ? best([...scene.boxes.keys()].filter((b) => scene.boxes.get(b).parent === +id.slice(1))) || best(scene.boxes.keys()) : best(scene.boxes.keys());
    const near = scene.edges.filter((e) => !e.isFar && (e.from === id || e.to === id)).map((e) => (e.from === id ? e.to : e.from));
    return (dy && best(near)) || best(scene.boxes.keys());
  }

  root.addEventListener("keydown", (event) => {
    if (!scene || event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    if (way) {
      const next = current ? towards(current, ...way) : scene.order[0];
      if (next) { go(next); choose(next); }
    } else if (event.key === "Enter" || event.key === " ") { if (current) toggle(current); }
    else if (event.key === "+" || event.key === "=") canvas.call(zoom.scaleBy, 1.4);
    else if (event.key === "-") canvas.call(zoom.scaleBy, 1 / 1.4);
    else if (event.key === "0") fit(0.02);
    else return;
    event.preventDefault();
  });
  root.addEventListener("focus", () => { if (!current && scene) go(scene.order[0], false); });
  new ResizeObserver(() => cull(d3.zoomTransform(root))).observe(root);
  return {
    paint, mark, fit, element: root,
    nearer: (by) => canvas.call(zoom.scaleBy, by),
    get current() { return current; },
    get shown() { return shown; },
  };
}
