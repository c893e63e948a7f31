// The line at the bottom: the selection in words.

function makeDetails(model, selection, host) {
  function part(name, text) {
    if (text === "" || text === null || text === undefined) return null;
    const span = document.createElement("span"), bold = document.createElement("b");
    bold.textContent = name ? `${name} ` : "";
    span.append(bold, String(text));
    return span;
  }

  const counted = (values, steps) => `${values} value${values === 1 ? "" : "s"} in ${steps} step${steps === 1 ? "" : "s"}`;
  const say = (...parts) => host.replaceChildren(...parts.filter(Boolean));

  function ofStep(step) {
    const rate = step.time ? `${(step.bytes / step.time / 1e9).toFixed(1)} GB/s, ${(step.operations / step.time / 1e9).toFixed(2)} GFLOP/s` : "";
    const { count } = step;
    return [
      part(step.kind, step.name), part("", step.half === "both" ? "forward and backward" : step.half), part("", `${count} value${count === 1 ? "" : "s"}`),
      part("moves", amount(step.bytes, "B")), part("computes", `${amount(step.operations, "")} operations`.replace("  ", " ")),
      step.time === null ? null : part("takes", duration(step.time)), part("", rate),
    ];
  }

  function ofNode(node) {
    const params = Object.entries(node.params).map(([name, value]) => `${name}=${value}`).join(", ");
    const rule = node.rule ? `${node.rule.kind} of ${node.of || "?"}: ${node.rule.function} (${node.rule.file.split("/").pop()}:${node.rule.line})` : "";
    const kernels = node.steps.map((key) => `${model.steps[key].path} ${model.steps[key].name}`).join(", ");
    return [
      part(node.id, `= ${node.op}(${node.inputs.map((key) => model.nodes[key].id).join(", ")}${params ? `; ${params}` : ""})`), part("", node.type),
      part("", node.half), part("rule", rule), part("from", node.lines.slice(0, 3).map((line) => placeText(model, line)).join(", called at ")),
      part(node.steps.length > 1 ? "in steps" : "in step", kernels),
    ];
  }

  selection.listen((now) => {
    const outer = [...now.steps].filter((key) => !ownersOf(model, model.steps[key].scope).some((o) => now.steps.has(o)));
    if (now.text) say(part("", now.text), part("", now.nodes.size ? counted(now.nodes.size, outer.length) : "nothing was recorded on this line"));
    else if (now.nodes.size === 1 && now.from !== "kernels") say(...ofNode(model.nodes[[...now.nodes][0]]));
    else if (outer.length === 1) say(...ofStep(model.steps[outer[0]]));
    else if (now.nodes.size) say(part("", counted(now.nodes.size, outer.length)));
    else start();
  });

  function start() {
    say(part("", "Click a line, a box or a kernel: what belongs to it is marked everywhere. Enter or a double click opens a kernel; ? shows the keys."));
  }
  start();
  return (text) => say(part("", text));
}
