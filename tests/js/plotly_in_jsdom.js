/** The plotly of this environment in a page of jsdom's, with a real canvas; WebGL there is none. */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { JSDOM } from "jsdom";

// Node and plotly are packages of one Python environment.
const PLOTLY = new URL("../../plotly/package_data/plotly.min.js", pathToFileURL(process.execPath));
const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true, runScripts: "outside-only" });
window.URL.createObjectURL = () => ""; // the map library in plotly asks for a worker when it is loaded
window.eval(readFileSync(PLOTLY, "utf8"));

export const { document, Plotly, Node } = window;
Object.assign(globalThis, { document, Node });

/** Closes the page, whose clock would keep the process. */
export const close = () => window.close();

/** An element with plotly's drawing of a figure. */
export async function draw({ data, layout }) {
  const canvas = document.createElement("div");
  document.body.append(canvas);
  const size = { width: 600, height: 400, autosize: false };
  await Plotly.newPlot(canvas, data, { ...layout, ...size }, { displayModeBar: false });
  return canvas;
}
