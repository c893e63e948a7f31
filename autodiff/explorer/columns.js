// The columns of the page: which panes there are, buttons that show and hide them, and lines to drag between them.

function makePane(title, note = "") {
  const pane = document.createElement("section"), head = document.createElement("h2"), body = document.createElement("div");
  const small = document.createElement("small");
  pane.className = "pane";
  head.append(title, small);
  small.textContent = note;
  pane.append(head, body);
  return { pane, head, body };
}

// columns: [{panes: [{name, pane}], weight, isShown}]
function makeColumns(host, buttons, columns, onChange) {
  columns.forEach((column) => {
    column.element = document.createElement("div");
    column.element.className = "column";
    column.element.append(...column.panes.map(({ pane }) => pane));
    column.panes.forEach((one) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = one.name;
      button.title = `Show or hide: ${one.name}`;
      button.setAttribute("aria-pressed", one.isShown);
      button.onclick = () => {
        one.isShown = !one.isShown;
        button.setAttribute("aria-pressed", one.isShown);
        arrange();
      };
      buttons.append(button);
    });
  });

  function arrange() {
    const shown = columns.filter((column) => column.panes.some((one) => one.isShown));
    host.replaceChildren();
    shown.forEach((column, k) => {
      if (k) host.append(splitter(shown[k - 1], column));
      for (const one of column.panes) one.pane.style.display = one.isShown ? "" : "none";
      column.element.style.flex = `${column.weight} 1 0`;
      host.append(column.element);
    });
    onChange();
  }

  function splitter(before, after) {
    const line = document.createElement("div");
    line.className = "split";
    line.addEventListener("pointerdown", (down) => {
      line.setPointerCapture(down.pointerId);
      const widths = [before.element.offsetWidth, after.element.offsetWidth];
      const weight = (before.weight + after.weight) / (widths[0] + widths[1]);
      line.onpointermove = (move) => {
        const by = Math.max(60 - widths[0], Math.min(widths[1] - 60, move.clientX - down.clientX));
        before.weight = (widths[0] + by) * weight;
        after.weight = (widths[1] - by) * weight;
        for (const column of [before, after]) column.element.style.flex = `${column.weight} 1 0`;
      };
    });
    line.addEventListener("pointerup", () => { line.onpointermove = null; });
    return line;
  }

  arrange();
}
