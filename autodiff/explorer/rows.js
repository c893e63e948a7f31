// A list of rows of one height, of which only those in view are in the document.
//
//   count()         rows there are            fill(element, row)   give a row its content and classes
//   pick(row)       a row was chosen          label                of the list, for screen readers

const ROW = 16;

function makeRows(host, { count, fill, pick, label }) {
  host.classList.add("rows");
  host.tabIndex = 0;
  host.setAttribute("role", "listbox");
  host.setAttribute("aria-label", label);
  const room = document.createElement("div"), view = document.createElement("div");
  view.className = "window";
  host.append(room, view);
  const name = `rows${(makeRows.made = (makeRows.made || 0) + 1)}`;
  let current = 0, widest = 0;

  function draw() {
    room.style.height = `${count() * ROW}px`;
    const first = Math.max(0, Math.floor(host.scrollTop / ROW) - 8);
    const last = Math.min(count(), first + Math.ceil(host.clientHeight / ROW) + 16);
    view.style.top = `${first * ROW}px`;
    const shown = [];
    for (let row = first; row < last; row++) {
      const element = document.createElement("div");
      element.className = row === current ? "row current" : "row";
      element.id = `${name}-${row}`;
      element.dataset.row = row;
      element.setAttribute("role", "option");
      fill(element, row);
      element.setAttribute("aria-selected", /\b(sel|kernel)\b/.test(element.className));
      shown.push(element);
    }
    view.replaceChildren(...shown);
    if (view.offsetWidth > widest) room.style.width = `${(widest = view.offsetWidth)}px`; // else scrolling jumps
    host.setAttribute("aria-activedescendant", `${name}-${current}`);
  }

  function show(row, always = false) {
    const y = row * ROW, margin = Math.min(48, host.clientHeight / 4);
    if (!always && y >= host.scrollTop && y <= host.scrollTop + host.clientHeight - margin) return;
    host.scrollTop = Math.max(0, y - margin);
  }

  function move(row) {
    current = Math.max(0, Math.min(count() - 1, row));
    const y = current * ROW;
    if (y < host.scrollTop) host.scrollTop = y;
    else if (y > host.scrollTop + host.clientHeight - 2 * ROW) host.scrollTop = y - host.clientHeight + 2 * ROW;
    pick(current);
  }

  view.addEventListener("click", (event) => {
    const element = event.target.closest(".row");
    if (!element || String(getSelection())) return; // text is being marked, to be copied
    current = +element.dataset.row;
    pick(current);
  });
  host.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(host.clientHeight / ROW) - 2);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move(current + by);
  });
  host.addEventListener("scroll", draw);
  new ResizeObserver(draw).observe(host);
  return {
    draw, show,
    get current() { return current; },
    set current(row) { current = row; },
    reset() { widest = 0; room.style.width = ""; host.scrollTop = host.scrollLeft = 0; current = 0; draw(); },
  };
}
