// The pane of the graph: opens and closes steps, asks for a layout, and draws, or lists where there is no layout.

function makeGraphPane(model, selection, host, say) {
  const open = new Set();
  const layout = makeLayout();
  const frame = document.createElement("div"), note = document.createElement("div"), buttons = document.createElement("div");
  host.className = "graph";
  frame.className = "drawing";
  note.className = "note";
  buttons.className = "zoom";
  host.append(frame);

  // A step is opened or closed by its box; a value closes the kernel that it is shown in.
  function toggle(id) {
    const key = +id.slice(1);
    const step = id[0] === "n" ? model.nodes[key].steps[0] : key;
    if (step === undefined) return;
    if (!model.steps[step].bodies.length && model.steps[step].nodes.length < 2 && id[0] === "s") return say("This step is one value: there is nothing inside to show.");
    if (open.has(step)) open.delete(step);
    else open.add(step);
    relayout(`s${step}`);
  }

  function choose(id) {
    const key = +id.slice(1);
    if (id[0] === "n") selection.nodes([key], "graph");
    else selection.steps([key], "graph");
  }

  let view = makeDrawing(model, selection, frame, { toggle, choose });
  [["+", "Nearer (+)", () => view.nearer(1.4)], ["−", "Further (-)", () => view.nearer(1 / 1.4)], ["▣", "All of it (0)", () => view.fit(0.02)]].forEach(([text, title, act]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.title = title;
    button.onclick = act;
    buttons.append(button);
  });
  frame.append(note, buttons);

  // The scene once more; `keep` is the box that stays in its place.
  async function relayout(keep, moves = false) {
    const start = performance.now();
    const scene = makeScene(model, open, selection.now.nodes);
    note.textContent = `laying out ${scene.boxes.size} boxes`;
    let places = null;
    if (!isList) {
      try {
        places = await layout.ask(dotOf(scene));
        if (places === null) return; // another scene was asked for since
      } catch (error) {
        if (error instanceof TooLong && open.size) {
          open.clear();
          note.textContent = "The layout took too long: all kernels are closed again.";
          return relayout(keep);
        }
        becomeList(error);
      }
    }
    view.paint(scene, places, keep);
    view.mark(moves);
    const far = scene.edges.filter((edge) => edge.isFar).length;
    note.textContent = isList ? note.dataset.why : `${scene.boxes.size} boxes of ${scene.count} values${far ? `; ${far} long edges are whole when selected` : ""}`;
    host.dataset.layouts = +(host.dataset.layouts || 0) + 1; // tests wait for it
    host.dataset.took = Math.round(performance.now() - start);
  }

  let isList = false;
  function becomeList(error) {
    isList = true;
    view.element.remove();
    buttons.remove();
    note.dataset.why = `A list, in place of the drawing: ${error instanceof TooLong ? "its layout took too long" : "this page may run no worker, or no WebAssembly"}.`;
    note.title = error.message;
    view = makeBoxList(model, selection, frame, { toggle, choose });
    frame.append(note);
  }

  // Of a large open kernel the neighbourhood of what is selected is shown: it may be another one now.
  function isElsewhere(now) {
    const shown = view.shown;
    return [...open].some((key) => {
      const step = model.steps[key];
      if (step.bodies.length || step.nodes.length <= WHOLE) return false;
      const own = step.nodes.filter((node) => now.nodes.has(node));
      return own.length > 0 && own.length < step.nodes.length && !own.some((node) => shown.has(`n${node}`));
    });
  }

  selection.listen((now) => {
    if (isElsewhere(now)) relayout(view.current, true);
    else view.mark(now.from !== "graph");
  });
  relayout(null);
  return {
    toggle, relayout,
    focus: () => view.element.focus(),
    openAll(keys) { for (const key of keys) open.add(key); return relayout(null); },
    get current() { return view.current; },
  };
}
