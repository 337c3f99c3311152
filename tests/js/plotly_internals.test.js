/**
 * What is known of plotly's inside, against the plotly that is installed: words that are moved in place are those that
 * plotly draws anew, and each record that is read is there. After an upgrade of plotly the first failure here names what
 * plotly does otherwise now.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { JSDOM } from "jsdom";
import { drawsScenes, moveInPlace, quickenScenes, scenesOf, spotIn } from "../../assets/js/charts/plotly_internals.js";

// Node and plotly are packages of one Python environment.
const PLOTLY = new URL("../../plotly/package_data/plotly.min.js", pathToFileURL(process.execPath));
const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true, runScripts: "outside-only" });
window.URL.createObjectURL = () => ""; // the map library in plotly asks for a worker when it is loaded
window.eval(readFileSync(PLOTLY, "utf8"));

const { document, Plotly } = window;
Object.assign(globalThis, { document });

after(() => window.close()); // its clock would keep the process

/** An element with plotly's drawing of a figure. */
async function draw({ data, layout }) {
  const canvas = document.createElement("div");
  document.body.append(canvas);
  const size = { width: 600, height: 400, autosize: false };
  await Plotly.newPlot(canvas, data, { ...layout, ...size }, { displayModeBar: false });
  return canvas;
}

const named = (/** @type {string} */ text) => ({
  data: [{ type: "scatter", mode: "markers", x: [1, 2], y: [1, 2] }],
  layout: { annotations: [{ x: 1, y: 1, text, showarrow: false }] },
});

test("the words of an annotation, in its element and in plotly's records", async () => {
  const [moved, fresh] = [await draw(named("λ = 0")), await draw(named("λ = 0.1"))];
  assert.ok(moveInPlace(moved, new Map([["layout.annotations.0", { text: "λ = 0.1" }]])));
  const words = (/** @type {Element} */ canvas) => canvas.querySelector(".annotation-text-g text");
  assert.equal(words(moved).textContent, words(fresh).textContent);
  assert.equal(words(moved).getAttribute("data-unformatted"), words(fresh).getAttribute("data-unformatted"));
  assert.equal(JSON.stringify(moved.layout.annotations), JSON.stringify(fresh.layout.annotations));
  await Plotly.relayout(moved, { "margin.l": 80 });
  assert.equal(words(moved).textContent, "λ = 0.1");
});

test("what can't be moved in place is left to plotly, and nothing has been touched", async () => {
  const canvas = await draw(named("note"));
  const drawing = () => canvas.innerHTML + JSON.stringify(canvas.data) + JSON.stringify(canvas.layout);
  const before = drawing();
  const left = {
    "another trace": { "data.0": { y: [2, 1] } },
    "words with markup": { "layout.annotations.0": { text: "a<br>b" } },
    "a look of an annotation": { "layout.annotations.0": { text: "a", opacity: 0.5 } },
    "a range": { "layout.xaxis": { range: [0, 1] } },
  };
  for (const [what, change] of Object.entries(left)) {
    assert.equal(moveInPlace(canvas, new Map(Object.entries(change))), false, what);
    assert.equal(drawing(), before, what);
  }
  assert.equal(moveInPlace(document.createElement("div"), new Map()), false, "an element without a drawing");
  assert.equal(spotIn(canvas, 0, [1, 1, 1]), null);
});

test("scenes by their names; without WebGL they are there and empty", async () => {
  const surface = {
    type: "surface",
    z: [
      [1, 2],
      [3, 4],
    ],
  };
  const canvas = await draw({
    data: [surface, { ...surface, scene: "scene2" }],
    layout: { scene: { domain: { x: [0, 0.5] } }, scene2: { domain: { x: [0.5, 1] } } },
  });
  assert.deepEqual(scenesOf(canvas), ["scene", "scene2"]);
  assert.equal(drawsScenes(canvas), false);
  quickenScenes(canvas);
  assert.equal(
    moveInPlace(
      canvas,
      new Map([
        [
          "data.0",
          {
            z: [
              [4, 3],
              [2, 1],
            ],
          },
        ],
      ]),
    ),
    false,
  );
  const flat = await draw({ data: [{ type: "scatter", x: [1], y: [1] }], layout: {} });
  assert.deepEqual(scenesOf(flat), []);
  assert.equal(drawsScenes(flat), true);
});
