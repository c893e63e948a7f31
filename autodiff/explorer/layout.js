// Asks Graphviz, in a worker, where boxes lie. A page's policy may forbid workers or WebAssembly: then it says so.
//
//   ask(dot)   a promise of {width, height, boxes: id -> [x, y, w, h], clusters: likewise}; of an older question null
//   Errors:    `NoLayout` where there will never be one, `TooLong` where this one took too long

const DEADLINE_MS = 15000;

class NoLayout extends Error {}
class TooLong extends Error {}

function makeLayout() {
  let worker = null, pending = null, number = 0;

  function start() {
    const code = document.getElementById("graphviz").textContent + "\n" + document.getElementById("layout-worker").textContent;
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    try {
      worker = new Worker(address);
    } catch (error) {
      throw new NoLayout(String(error));
    }
    worker.onerror = (event) => settle((p) => p.reject(new NoLayout(event.message || "no worker may run here")));
    worker.onmessage = ({ data }) => {
      if (!pending || data.number !== pending.number) return;
      settle((p) => (data.error ? p.reject(new NoLayout(data.error)) : p.resolve(placesOf(data.places))));
    };
  }

  function settle(how) {
    if (!pending) return;
    clearTimeout(pending.timer);
    const p = pending;
    pending = null;
    how(p);
  }

  function stop() {
    if (worker) worker.terminate();
    worker = null;
  }

  return {
    ask(dot) {
      if (pending) { // the worker is busy with what nobody waits for any more
        settle((p) => p.resolve(null));
        stop();
      }
      return new Promise((resolve, reject) => {
        if (!worker) {
          try { start(); } catch (error) { return reject(error); }
        }
        const timer = setTimeout(() => { stop(); settle((p) => p.reject(new TooLong())); }, DEADLINE_MS);
        pending = { number: ++number, resolve, reject, timer };
        worker.postMessage({ number, dot });
      });
    },
  };
}

// Graphviz measures from the lower left, in points; its names of clusters are `cluster_3`.
function placesOf(text) {
  const graph = JSON.parse(text), [, , width, height] = graph.bb.split(",").map(Number);
  const boxes = new Map(), clusters = new Map();
  for (const object of graph.objects || []) {
    if (object.bb) {
      const [left, low, right, high] = object.bb.split(",").map(Number);
      clusters.set(`c${object.name.slice(8)}`, [left, height - high, right - left, high - low]);
    } else {
      const [x, y] = object.pos.split(",").map(Number), w = object.width * 72, h = object.height * 72;
      boxes.set(object.name, [x - w / 2, height - y - h / 2, w, h]);
    }
  }
  return { width, height, boxes, clusters };
}
