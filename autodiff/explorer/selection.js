// The selection: values and steps, and what belongs to them. Panes listen, and mark what is theirs.
//
//   nodes, steps   what is selected
//   kin            values of the other half: the operation of a derivative, the derivatives of an operation
//   places         lines of the program that recorded the values        callers   lines that called these
//   from           the pane that it was made in, which need not scroll  text      its name, where it has one

function makeSelection(model) {
  const listeners = [];
  let now = empty("");

  function empty(from) {
    return { nodes: new Set(), steps: new Set(), kin: new Set(), places: new Set(), callers: new Set(), from, text: "" };
  }

  function set(nodes, steps, from, text = "", place = null) {
    now = { ...empty(from), nodes: new Set(nodes), steps: new Set(steps), text };
    if (place) now.places.add(place);
    for (const key of now.nodes) {
      const node = model.nodes[key];
      if (!place) for (const own of node.places) now.places.add(own);
      for (const line of node.lines) if (line.source !== null) now.callers.add(placeKey(line));
      const partners = node.of ? model.byRecorded.get(node.of) || [] : node.from.flatMap((id) => derivatives().get(id) || []);
      for (const partner of partners) if (!now.nodes.has(partner)) now.kin.add(partner);
    }
    for (const listen of listeners) listen(now);
  }

  // The values that are parts of the derivative of an operation, by its recorded name.
  let byOperation = null;
  function derivatives() {
    if (!byOperation) {
      byOperation = new Map();
      for (const node of model.nodes) if (node.of) push(byOperation, node.of, node.key);
    }
    return byOperation;
  }

  function stepsOf(keys) {
    return new Set(keys.flatMap((key) => {
      const node = model.nodes[key];
      // What no step computes, such as an input, is of the steps that read it.
      const steps = node.steps.length ? node.steps : node.readers.flatMap((reader) => model.nodes[reader].steps);
      return [...steps, ...ownersOf(model, node.scope)];
    }));
  }

  return {
    get now() { return now; },
    listen(f) { listeners.push(f); },
    nodes(keys, from) { set(keys, stepsOf(keys), from); },
    steps(keys, from) {
      const inside = keys.map((key) => insideOf(model, key));
      set(inside.flatMap((f) => f.nodes), inside.flatMap((f) => f.steps), from);
    },
    // A line of the program is marked even if nothing was recorded there.
    place(source, line, from) {
      const keys = model.bySource[source].get(line) || [];
      set(keys, stepsOf(keys), from, `${model.sources[source].name}:${line}`, placeKey({ source, line }));
    },
    clear(from = "") { set([], [], from); },
  };
}
