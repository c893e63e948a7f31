// Runs in a worker, after Graphviz: where the boxes of a scene lie. Nothing is fetched, WebAssembly is part of Graphviz's file.
onmessage = async ({ data: { number, dot } }) => {
  try {
    const engine = await graphviz.Graphviz.load();
    postMessage({ number, places: engine.layout(dot, "json", "dot") });
  } catch (error) {
    postMessage({ number, error: String(error) });
  }
};
