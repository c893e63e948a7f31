// The scene: which boxes and edges the drawing has, from the model, the steps that are open, and the selection.
//
// A closed step is one box. An open kernel shows its values, an open loop or branch the steps of its bodies. Numbers
// stand in labels. Edges over many ranks, and those between the halves, are `far`: they are not laid out.

const FAR = 6; // ranks
const WHOLE = 150; // values of a kernel up to which an open one shows them all
const NEAR = 60; // values shown of a larger one

function stepLabel(model, step) {
  const glyph = step.kind === "kernel" ? "▸" : { gemm: "×", loop: "↻", while: "↻", branch: "⑂" }[step.kind] || "◦";
  const count = insideOf(model, step.key).nodes.length;
  const name = step.name.length > 28 ? `${step.name.slice(0, 27)}…` : step.name;
  return `${glyph} ${name}${count > 1 ? `  ·${count}` : ""}`;
}

// One number is read in many places: as a box it would have an edge to each of them.
const isNumber = (node) => node.half === "constant" && !node.inputs.length;
const numberText = (node) => (node.op === "constant" ? node.params.value : node.id);

function nodeLabel(model, node) {
  const constants = node.inputs.map((key) => model.nodes[key]).filter(isNumber).map((n) => ` ${numberText(n)}`);
  const what = node.op === "input" ? (node.half === "seed" && !node.id.startsWith("seed") ? " seed" : "") : ` = ${node.op}`;
  const name = node.label && node.label !== node.id ? `${node.id} (${node.label})` : node.id;
  return `${name}${what}${constants.join("")}  ${node.type}${node.output === null ? "" : "  → result"}`;
}

// The values of a large kernel that are shown: those near the selected ones, or near what it stores.
function neighbourhood(model, step, selected) {
  const own = new Set(step.nodes);
  let start = step.nodes.filter((key) => selected.has(key));
  if (!start.length || start.length === step.nodes.length) start = step.nodes.filter((key) => step.stored.has(key));
  if (!start.length) start = step.nodes.slice(-1);
  const shown = new Set(start.slice(0, NEAR));
  for (const key of shown) {
    for (const next of [...model.nodes[key].inputs, ...model.nodes[key].readers]) {
      if (shown.size < NEAR && own.has(next) && !isNumber(model.nodes[next])) shown.add(next);
    }
  }
  return shown;
}

function makeScene(model, open, selected) {
  const boxes = new Map(), edges = new Map(), clusters = [];
  const shownOf = new Map();
  const isOpen = (key) => open.has(key);
  for (const key of open) {
    const step = model.steps[key];
    if (!step.bodies.length && step.nodes.length > WHOLE) shownOf.set(key, neighbourhood(model, step, selected));
  }

  // The id of the box that a value lies in.
  function boxOf(node) {
    const key = node.steps[0];
    if (key === undefined) return `n${node.key}`;
    if (!isOpen(key)) return `s${key}`;
    const shown = shownOf.get(key);
    return shown && !shown.has(node.key) ? `m${key}` : `n${node.key}`;
  }

  function addBox(id, node, parent) {
    if (boxes.has(id)) return;
    const key = +id.slice(1);
    if (id[0] === "n") boxes.set(id, { id, node: key, label: nodeLabel(model, node), half: node.half, isBackward: node.isBackward, parent, isOutput: node.output !== null });
    else {
      const step = model.steps[key], isMore = id[0] === "m";
      const label = isMore ? `… ${step.nodes.length - shownOf.get(key).size} more values` : stepLabel(model, step);
      const half = isMore ? node.half : step.half;
      boxes.set(id, { id, step: key, label, half, isBackward: half === "backward", parent: isMore ? key : parent, isMore, isOutput: step.nodes.some((k) => model.nodes[k].output !== null) });
    }
  }

  function addScope(scope, parent) {
    for (const key of scope.nodes) {
      const node = model.nodes[key];
      if (isNumber(node)) continue;
      const id = boxOf(node), owner = node.steps[0];
      addBox(id, node, id[0] === "n" && owner !== undefined ? owner : parent);
      for (const input of node.inputs) {
        if (isNumber(model.nodes[input])) continue;
        const from = boxOf(model.nodes[input]);
        if (from !== id) edges.set(`${from}>${id}`, { from, to: id });
      }
    }
    for (const key of scope.steps) {
      if (!isOpen(key)) continue;
      const step = model.steps[key];
      clusters.push({ id: `c${key}`, step: key, label: step.name, half: step.half, parent });
      for (const body of step.bodies) addScope(model.scopes[body], key);
    }
  }

  addScope(model.scopes[0], null);
  const drawn = [...edges.values()].filter((edge) => boxes.has(edge.from) && boxes.has(edge.to));
  const rank = ranksOf([...boxes.keys()], drawn);
  for (const edge of drawn) {
    edge.isFar = Math.abs(rank.get(edge.to) - rank.get(edge.from)) > FAR || boxes.get(edge.from).isBackward !== boxes.get(edge.to).isBackward;
  }
  const order = [...boxes.keys()].sort((a, b) => rank.get(a) - rank.get(b));
  return { boxes, edges: drawn, clusters, order, rank, count: model.nodes.length };
}

// The longest way to each box from one that reads nothing. A value that several kernels compute may make circles: an
// edge back to a box that is being looked at does not count. No recursion: programs are deep.
function ranksOf(ids, edges) {
  const sources = new Map(), rank = new Map();
  for (const { from, to } of edges) push(sources, to, from);
  for (const start of ids) {
    const stack = [start], active = new Set();
    while (stack.length) {
      const id = stack[stack.length - 1], inputs = sources.get(id) || [];
      if (rank.has(id)) { stack.pop(); continue; }
      active.add(id);
      const waiting = inputs.filter((i) => !rank.has(i) && !active.has(i));
      if (waiting.length) stack.push(...waiting);
      else {
        rank.set(id, 1 + Math.max(-1, ...inputs.map((i) => rank.get(i) ?? -1)));
        active.delete(id);
        stack.pop();
      }
    }
  }
  return rank;
}

const CHARACTER = 7.3, HEIGHT = 24; // pixels
const widthOf = (box) => box.label.length * CHARACTER + 16;

// The scene in Graphviz's language: forward runs down, backward is turned round and so runs up beside it.
function dotOf(scene) {
  const inside = new Map();
  for (const box of scene.boxes.values()) push(inside, box.parent, `${box.id}[width=${(widthOf(box) / 72).toFixed(2)}];`);
  const clusters = new Map();
  for (const cluster of scene.clusters) push(clusters, cluster.parent, cluster);
  const parts = [
    "digraph{nslimit=2;nslimit1=2;nodesep=.2;ranksep=.3;",
    `node[shape=box,fixedsize=true,height=${(HEIGHT / 72).toFixed(2)},label=""];`,
  ];
  function put(parent) {
    parts.push(...(inside.get(parent) || []));
    for (const cluster of clusters.get(parent) || []) {
      parts.push(`subgraph cluster_${cluster.step}{margin=12;label=${JSON.stringify(cluster.label)};fontsize=12;`);
      put(cluster.step);
      parts.push("}");
    }
  }
  put(null);
  for (const { from, to, isFar } of scene.edges) {
    if (!isFar) parts.push(scene.boxes.get(from).isBackward ? `${to}->${from}[dir=back];` : `${from}->${to};`);
  }
  return parts.join("") + "}";
}
