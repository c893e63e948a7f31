// The page's data, unpacked, as the panes use it: values, steps and lines have numbers in place of names.
//
//   nodes    values of the graph that was cut into steps, those inside of loops and branches too
//   steps    kernels, products, loops, ...; `path` is "3", or "3.0.1" for step 1 of body 0 of step 3
//   scopes   programs: that of the function, then the bodies
//   texts    by stage: lines, and for each line what it belongs to

async function readData() {
  const packed = document.getElementById("data").textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function push(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

// A line of the program as a key.
const placeKey = (line) => `${line.source}:${line.line}`;

function makeModel(data) {
  const model = { name: data.name, machine: data.machine, sources: data.sources, nodes: [], steps: [], scopes: [] };
  addScope(model, data.program, "", null);
  const recorded = new Map(data.nodes.map((node) => [node.id, node]));
  model.byRecorded = new Map();
  model.byPlace = new Map();
  model.bySource = data.sources.map(() => new Map());
  for (const node of model.nodes) {
    for (const id of node.from) push(model.byRecorded, id, node.key);
    for (const line of node.lines) if (line.source !== null) push(model.bySource[line.source], line.line, node.key);
    // The lines where it was recorded; its other lines are those that called these.
    const own = node.from.map((id) => recorded.get(id)).filter((n) => n && n.lines.length).map((n) => n.lines[0]);
    node.places = [...new Set((own.length ? own : node.lines.slice(0, 1)).filter((l) => l.source !== null).map(placeKey))];
    for (const input of node.inputs) model.nodes[input].readers.push(node.key);
  }
  for (const step of model.steps) model.byPlace.set(step.path, step.key);
  // What no step computes by itself, such as the transpose that a product reads as it is, is drawn with its first reader.
  for (const node of [...model.nodes].reverse()) {
    if (node.steps.length || node.op === "input" || node.op === "constant" || node.output !== null) continue;
    const step = node.readers.flatMap((key) => model.nodes[key].steps)[0];
    if (step === undefined) continue;
    node.steps.push(step);
    model.steps[step].nodes.push(node.key);
  }
  model.texts = {};
  for (const [stage, text] of Object.entries(data.texts)) model.texts[stage] = makeText(model, data, stage, text);
  return model;
}

function addScope(model, program, path, owner) {
  const scope = { key: model.scopes.length, owner, role: program.role || "", nodes: [], steps: [], named: new Map() };
  model.scopes.push(scope);
  const numbers = scope.named;
  for (const given of program.drawn) {
    const node = {
      key: model.nodes.length, scope: scope.key, id: given.id, op: given.op, type: given.type, params: given.params || {},
      bytes: given.bytes, half: given.half, label: given.label, lines: given.lines || [], from: given.from || [],
      of: given.of, rule: given.rule, output: given.output ?? null, steps: [], readers: [],
    };
    node.isBackward = given.half === "backward" || given.half === "seed";
    numbers.set(given.id, node.key);
    model.nodes.push(node);
    scope.nodes.push(node.key);
  }
  program.drawn.forEach((given, k) => {
    model.nodes[scope.nodes[k]].inputs = given.inputs.map((id) => numbers.get(id)).filter((key) => key !== undefined);
  });
  for (const given of program.steps) {
    const own = path + given.id;
    const step = {
      key: model.steps.length, scope: scope.key, path: own, name: given.name, kind: given.kind, half: given.half,
      nodes: given.nodes.map((id) => numbers.get(id)).filter((key) => key !== undefined), bytes: given.bytes,
      count: given.nodes.length, operations: given.operations, reads: given.reads, writes: given.writes, bodies: [],
      time: given.time ?? null,
    };
    step.stored = new Set((given.stored || []).map((id) => numbers.get(id)));
    model.steps.push(step);
    scope.steps.push(step.key);
    for (const key of step.nodes) model.nodes[key].steps.push(step.key);
    (given.bodies || []).forEach((body, k) => step.bodies.push(addScope(model, body, `${own}.${k}.`, step.key)));
  }
  return scope.key;
}

// All steps and values that lie in a step, those of its bodies too.
function insideOf(model, key, found = { steps: [], nodes: [] }) {
  const step = model.steps[key];
  found.steps.push(key);
  found.nodes.push(...step.nodes);
  for (const scope of step.bodies) {
    found.nodes.push(...model.scopes[scope].nodes);
    for (const inner of model.scopes[scope].steps) insideOf(model, inner, found);
  }
  return found;
}

// The loop or branch around a step, the one around that, and so on.
function ownersOf(model, scope) {
  const found = [];
  for (let owner = model.scopes[scope].owner; owner !== null; owner = model.scopes[model.steps[owner].scope].owner) found.push(owner);
  return found;
}

// ---------------------------------------------------------------- texts

function makeText(model, data, stage, { text, lines: runs }) {
  const lines = text.split("\n");
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  const { named } = model.scopes[0];
  const recorded = stage === "optimized" ? new Map(data.optimized.map((node) => [node.id, node.from || []])) : null;
  // A value by its name in this text: itself if it was drawn, in a body that these steps run or beside them; else what
  // its recorded values became.
  function found(id, steps) {
    if (stage === "graph") return model.byRecorded.get(id) || [];
    for (const step of steps) for (const scope of scopesOf(model, step)) if (model.scopes[scope].named.has(id)) return [model.scopes[scope].named.get(id)];
    if (named.has(id)) return [named.get(id)];
    return ((recorded && recorded.get(id)) || []).flatMap((from) => model.byRecorded.get(from) || []);
  }
  return {
    lines,
    runs: runs.map(([first, count, paths, names]) => {
      const steps = paths.map((path) => model.byPlace.get(path)).filter((key) => key !== undefined);
      const nodes = names.length === 1 ? found(names[0], steps) : [...new Set(names.flatMap((id) => found(id, steps)))];
      return { first, count, steps, nodes };
    }),
  };
}

// The programs that a step is in, the innermost first: its bodies, then that around it.
function scopesOf(model, key) {
  const step = model.steps[key];
  return [...step.bodies.flatMap((scope) => [...model.scopes[scope].steps.flatMap((inner) => model.steps[inner].bodies), scope]), step.scope];
}

// The run of lines that a line is in; runs stand in order.
function runAt(text, line) {
  let low = 0, high = text.runs.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1, run = text.runs[middle];
    if (line < run.first) high = middle - 1;
    else if (line >= run.first + run.count) low = middle + 1;
    else return run;
  }
  return null;
}

// A place in the user's program that a line of text names itself: `# train.py:4, in loss`.
function placeIn(model, line) {
  for (const [, file, number] of line.matchAll(/([^\s"'(]+\.\w+)"?:(\d+)/g)) {
    const source = model.sources.findIndex(
      (s) => (s.file === file || s.name === file) && number >= s.first_line && number < s.first_line + s.text.split("\n").length,
    );
    if (source >= 0) return { source, line: +number };
  }
  return null;
}

// ---------------------------------------------------------------- numbers for people

function amount(value, unit) {
  if (value === null || value === undefined) return "";
  let scale = 0;
  for (; value >= 1000 && scale < 4; scale++) value /= 1000;
  const digits = scale && value < 100 ? (value < 10 ? 2 : 1) : 0;
  return `${value.toFixed(digits)} ${["", "k", "M", "G", "T"][scale]}${unit}`.trim();
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const [scale, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  const value = seconds * scale;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
}

function placeText(model, line) {
  return line.source === null ? `line ${line.line}` : `${model.sources[line.source].name}:${line.line}`;
}
