/**
 * What is known of plotly's inside, against the plotly that is installed: a figure that is moved in place is the figure
 * that plotly draws anew, in its elements, its data and what its points say; and each record that is read is there. After
 * an upgrade of plotly the first failure here names what plotly does otherwise now.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { JSDOM } from "jsdom";
import { figureAt } from "../../assets/js/charts/bind.js";
import {
  cellBox,
  drawsScenes,
  localReferences,
  moveInPlace,
  plotArea,
  quickenScenes,
  rowBox,
  scenesOf,
  spotIn,
} from "../../assets/js/charts/plotly_internals.js";
import { movingBindings, prepare, stepInPlace } from "../../assets/js/charts/step.js";

// Node and plotly are packages of one Python environment.
const PLOTLY = new URL("../../plotly/package_data/plotly.min.js", pathToFileURL(process.execPath));
const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true, runScripts: "outside-only" });
window.URL.createObjectURL = () => ""; // the map library in plotly asks for a worker when it is loaded
window.eval(readFileSync(PLOTLY, "utf8"));

const { document, Plotly, Node } = window;
Object.assign(globalThis, { document, Node });

after(() => window.close()); // its clock would keep the process

/** An element with plotly's drawing of a figure. */
async function draw({ data, layout }) {
  const canvas = document.createElement("div");
  document.body.append(canvas);
  const size = { width: 600, height: 400, autosize: false };
  await Plotly.newPlot(canvas, data, { ...layout, ...size }, { displayModeBar: false });
  return canvas;
}

const MARKS =
  ".trace .js-line, .trace .js-fill, .trace .point, .trace .yerror, .annotation, .shapelayer path, .hm image, .xtitle, .ytitle, .x2title";
const START = { gamma: 0, lambda: 0 };

/** Every mark of a drawing with what places and colours it. */
function marksOf(canvas) {
  return [...canvas.querySelectorAll(MARKS)]
    .filter((mark) => mark.style.display !== "none")
    .map((mark) => ({
      kind: mark.tagName,
      d: mark.getAttribute("d"),
      text: mark.textContent,
      fill: mark.style.fill,
      stroke: mark.style.stroke,
      place: (mark.querySelector(".annotation-text-g > g") ?? mark).getAttribute("transform"),
      spans: [...mark.querySelectorAll("tspan")].map((span) => span.getAttribute("style").trim()),
      picture: mark.getAttribute("xlink:href") ?? mark.getAttribute("href"),
    }));
}

/** What plotly says of points in a hover. */
const saidOf = ({ calcdata }) =>
  calcdata.map((trace) => trace.map(({ x, y, ys, yh, tx, z, text }) => ({ x, y, ys, yh, tx, z, text })));

const NUMBER = /-?\d+(?:\.\d+)?/g;

/** Equality of forms, and of their numbers to half of the hundredth of a pixel that plotly writes. */
function assertAlike(moved, fresh, within, what) {
  const [form, wanted] = [moved, fresh].map((text) => (text ?? "").replace(NUMBER, "#"));
  assert.equal(form, wanted, what);
  const [values, expected] = [moved, fresh].map((text) => ((text ?? "").match(NUMBER) ?? []).map(Number));
  values.forEach((value, index) =>
    assert.ok(Math.abs(value - expected[index]) <= within, `${what}: ${moved} ≠ ${fresh}`),
  );
}

const drawAt = (figure, at) => {
  const made = figureAt(figure, at);
  prepare(made, movingBindings(figure, false));
  return draw(made);
};

/** Draws a figure, walks it in place from point to point, and compares it after each step with one drawn anew. */
async function walk(figure, points) {
  const moving = movingBindings(figure, false);
  const canvas = await drawAt(figure, START);
  const first = JSON.stringify(marksOf(canvas));
  assert.ok(marksOf(canvas).length > 0, "nothing is drawn, or its elements have other names");
  let from = START;
  for (const to of points) {
    assert.ok(stepInPlace(canvas, moving, from, to, {}), `can't be moved in place to ${JSON.stringify(to)}`);
    from = to;
    const fresh = await drawAt(figure, to);
    const [marks, wanted] = [marksOf(canvas), marksOf(fresh)];
    assert.equal(marks.length, wanted.length);
    marks.forEach(({ d, place, ...look }, index) => {
      const { d: freshD, place: freshPlace, ...freshLook } = wanted[index];
      assert.deepEqual(look, freshLook);
      assertAlike(d, freshD, 0.011, "d");
      assertAlike(place, freshPlace, look.text ? 1.01 : 0.011, "transform"); // plotly puts texts on whole pixels
    });
    assert.equal(JSON.stringify(canvas.data), JSON.stringify(fresh.data), "plotly's data");
    assert.equal(JSON.stringify(saidOf(canvas)), JSON.stringify(saidOf(fresh)), "plotly's calcdata");
    fresh.remove();
  }
  if (points.length) assert.notEqual(JSON.stringify(marksOf(canvas)), first, "no step changed anything");
  return canvas;
}

const bind = (path, values, ...over) => ({ path, over, values });
const POINTS = [
  { gamma: 0, lambda: 1 },
  { gamma: 1, lambda: 1 },
  { gamma: 1, lambda: 0 },
];
const categories = { type: "category", categoryorder: "array", categoryarray: ["0", "0.1", "1"], range: [-0.45, 2.45] };

test("where only what points say changes, no element is touched", async () => {
  const dots = { type: "scatter", mode: "markers", x: [0, 1], y: [2, 3], text: [] };
  const figure = {
    data: [dots],
    layout: {},
    bindings: [
      bind(
        "data.0.text",
        [
          ["a", "b"],
          ["c", "d"],
        ],
        "lambda",
      ),
    ],
  };
  const canvas = await drawAt(figure, START);
  const watch = new window.MutationObserver(() => {});
  watch.observe(canvas, { attributes: true, childList: true, characterData: true, subtree: true });
  assert.ok(moveInPlace(canvas, new Map([["data.0", { text: ["c", "d"] }]])));
  assert.deepEqual(watch.takeRecords(), []);
  const said = Array.from(saidOf(canvas)[0], ({ tx }) => tx); // of another realm
  assert.deepEqual(said, ["c", "d"]);
  canvas.remove();
});

for (const symmetric of [true, false])
  test(`curves on an ordinal axis: line, markers, ${symmetric ? "" : "a"}symmetric error bars and what points say`, async () => {
    const trace = {
      type: "scatter",
      mode: "lines+markers",
      x: ["0", "0.1", "1"],
      y: [],
      text: [],
      line: { color: "#123456" },
      error_y: { type: "data", symmetric, array: [], arrayminus: [], width: 3 },
    };
    await walk(
      {
        data: [trace],
        layout: { xaxis: categories, yaxis: { range: [0, 10] } },
        bindings: [
          bind(
            "data.0.y",
            [
              [
                [1, 2, 3],
                [4, 2.5, 3.123],
              ],
              [
                [2, 8, 5],
                [1, 1, 1],
              ],
            ],
            "gamma",
            "lambda",
          ),
          bind(
            "data.0.text",
            [
              [
                ["a", "b", "c"],
                ["d", "e", "f"],
              ],
              [
                ["g", "h", "i"],
                ["j", "k", "l"],
              ],
            ],
            "gamma",
            "lambda",
          ),
          bind(
            "data.0.error_y.array",
            [
              [0.1, 0.2, 0.3],
              [1, 0.5, 0.25],
            ],
            "gamma",
          ),
          bind(
            "data.0.error_y.arrayminus",
            [
              [0.3, 0.1, 0],
              [0.5, 1, 0.125],
            ],
            "gamma",
          ),
        ],
      },
      POINTS,
    );
  });

test("a line that is not a target of the pointer may get another number of points; a rule follows λ by its name", async () => {
  const line = { type: "scatter", mode: "lines", hoverinfo: "skip" };
  await walk(
    {
      data: [
        { ...line, x: [], y: [] },
        { ...line, x: [], y: [0, 10] },
      ],
      layout: { xaxis: categories, yaxis: { range: [0, 10] } },
      bindings: [
        bind(
          "data.0.x",
          [
            ["0", "0.1"],
            ["0", "0.1", "1"],
          ],
          "gamma",
        ),
        bind(
          "data.0.y",
          [
            [1, 2],
            [3, 2, 7],
          ],
          "gamma",
        ),
        bind(
          "data.1.x",
          [
            ["0", "0"],
            ["1", "1"],
          ],
          "lambda",
        ),
      ],
    },
    POINTS,
  );
});

test("the area between two curves, whichever of them moves", async () => {
  const line = { type: "scatter", mode: "lines", hoverinfo: "skip", line: { width: 0, color: "rgba(0,0,0,0)" } };
  await walk(
    {
      data: [
        { ...line, x: [1, 2, 3], y: [] },
        { ...line, x: [1, 2, 3], y: [], fill: "tonexty", fillcolor: "#abcdef" },
        { type: "scatter", x: [1, 2], y: [8, 9] },
      ],
      layout: { xaxis: { range: [0, 4] }, yaxis: { range: [0, 10] } },
      bindings: [
        bind(
          "data.0.y",
          [
            [1, 2, 3],
            [2, 2, 5],
          ],
          "lambda",
        ),
        bind(
          "data.1.y",
          [
            [5, 6, 7],
            [9, 3, 4],
          ],
          "gamma",
        ),
      ],
    },
    POINTS,
  );
});

test("markers become hollow and full in the colours that plotly gives them", async () => {
  await walk(
    {
      data: [
        {
          type: "scatter",
          mode: "markers",
          x: [1, 2],
          y: [1, 2],
          marker: { color: "rgb(10, 20, 30)", symbol: [], size: 9, line: { color: "rgb(1, 2, 3)", width: 1 } },
        },
      ],
      layout: { xaxis: { range: [0, 3] }, yaxis: { range: [0, 3] } },
      bindings: [
        bind(
          "data.0.marker.symbol",
          [
            ["circle", "square-open"],
            ["circle-open", "square"],
          ],
          "lambda",
        ),
      ],
    },
    [{ gamma: 0, lambda: 1 }, START, { gamma: 0, lambda: 1 }],
  );
});

const SCALE = [
  [0, "rgb(0, 32, 76)"],
  [0.5, "#7f7f7f"],
  [1, "rgb(255, 234, 70)"],
];
const cells = { type: "heatmap", colorscale: SCALE, zmin: 0, zmax: 10, showscale: false };

for (const [name, more] of [
  ["cells of one size", {}],
  ["cells of one size with gaps", { xgap: 2, ygap: 2 }],
  ["cells of several sizes, their edges given", { x: [0, 1, 1.5, 4], y: [0, 3, 4] }],
]) {
  test(`a heatmap of ${name}`, async () => {
    const still = {
      ...cells,
      z: [
        [1, 2],
        [3, 4],
      ],
      xaxis: "x2",
      yaxis: "y2",
    };
    await walk(
      {
        data: [still, { ...cells, ...more }],
        layout: { xaxis: { domain: [0, 0.4] }, xaxis2: { domain: [0.6, 1] }, yaxis2: { anchor: "x2" } },
        bindings: [
          bind(
            "data.1.z",
            [
              [
                [1, 2, 3],
                [4, null, 10],
              ],
              [
                [3, 2, 12],
                [-1, 5, 0],
              ],
            ],
            "lambda",
          ),
          bind(
            "data.1.text",
            [
              [
                ["a", "b", "c"],
                ["d", "e", "f"],
              ],
              [
                ["g", "h", "i"],
                ["j", "k", "l"],
              ],
            ],
            "lambda",
          ),
        ],
      },
      [{ gamma: 0, lambda: 1 }, START, { gamma: 0, lambda: 1 }],
    );
  });
}

test("a heatmap whose rows go downwards", async () => {
  await walk(
    {
      data: [cells],
      layout: { yaxis: { autorange: "reversed" } },
      bindings: [
        bind(
          "data.0.z",
          [
            [
              [1, 2, 3],
              [4, 5, 10],
            ],
            [
              [3, 2, 7],
              [9, 5, 0],
            ],
          ],
          "lambda",
        ),
      ],
    },
    [{ gamma: 0, lambda: 1 }],
  );
});

test("annotations: their place, their words with markup, and whether they are there", async () => {
  const note = { showarrow: false, font: { size: 12 }, xanchor: "left", yanchor: "bottom" };
  await walk(
    {
      data: [{ type: "scatter", x: [0, 1], y: [0, 1] }],
      layout: {
        xaxis: { range: [0, 5] },
        yaxis: { range: [0, 5] },
        annotations: [
          { ...note, x: 1, y: 1, text: "" },
          { ...note, x: 1, y: 1, yref: "paper", text: "still" },
          { ...note, x: 2, y: 2, text: "now and then", visible: true },
        ],
      },
      bindings: [
        bind(
          "layout.annotations.0.text",
          ["plain", 'a <b>bold</b> <span style="color:#aa0000">red</span> word'],
          "lambda",
        ),
        bind("layout.annotations.0.y", [1, 3.5], "gamma"),
        bind("layout.annotations.1.x", [1, 4], "lambda"),
        bind("layout.annotations.2.visible", [true, false], "gamma"),
      ],
    },
    [...POINTS, { gamma: 0, lambda: 1 }],
  );
});

test("shapes: a rectangle's sides on both kinds of axes, and a path in the units of its axes", async () => {
  await walk(
    {
      data: [{ type: "scatter", x: ["0", "0.1", "1"], y: [1, 2, 3] }],
      layout: {
        xaxis: categories,
        yaxis: { range: [0, 5] },
        shapes: [
          { type: "rect", yref: "paper", x0: 0, x1: 0, y0: 0, y1: 1 },
          { type: "rect", x0: 0, x1: 1, y0: 0, y1: 0 },
          { type: "path", path: "" },
        ],
      },
      bindings: [
        bind("layout.shapes.0.x0", [-0.5, 0.5], "lambda"),
        bind("layout.shapes.0.x1", [0.5, 1.5], "lambda"),
        bind("layout.shapes.1.y0", [0.5, 1.25], "gamma"),
        bind("layout.shapes.1.y1", [2, 4], "gamma"),
        bind("layout.shapes.2.path", ["M0,1L1,2L2,0.5", "M0,2L1,3L2,4.5Z"], "lambda"),
      ],
    },
    POINTS,
  );
});

test("the words beside axes", async () => {
  await walk(
    {
      data: [
        { type: "scatter", x: [1, 2], y: [1, 2] },
        { type: "scatter", x: [1, 2], y: [1, 2], xaxis: "x2" },
      ],
      layout: { xaxis: { domain: [0, 0.4], title: { text: "" } }, xaxis2: { domain: [0.6, 1], title: { text: "" } } },
      bindings: [
        bind("layout.xaxis.title.text", ["drift", "drift, <b>weighted</b>"], "gamma"),
        bind("layout.xaxis2.title.text", ["one", "other"], "lambda"),
      ],
    },
    POINTS,
  );
});

test("what can't be moved in place is left to plotly, and nothing has been touched", async () => {
  const canvas = await draw({
    data: [
      { type: "scatter", mode: "lines+markers", x: [1, 2], y: [1, 2], marker: { symbol: "circle" } },
      {
        ...cells,
        z: [
          [1, 2],
          [3, 4],
        ],
        xaxis: "x2",
        yaxis: "y2",
      },
      { type: "scatter", mode: "lines", x: [1, 2], y: [1, 2], fill: "tozeroy" },
    ],
    layout: {
      xaxis: { domain: [0, 0.4], title: { text: "words" } },
      xaxis2: { domain: [0.6, 1] },
      yaxis2: { anchor: "x2" },
      annotations: [
        { x: 1, y: 1, text: "note", showarrow: false },
        { x: 1, y: 1, text: "unseen", visible: false },
      ],
      shapes: [{ type: "circle", x0: 1, x1: 2, y0: 1, y1: 2 }],
    },
  });
  const drawing = () => canvas.innerHTML + JSON.stringify(canvas.data) + JSON.stringify(canvas.layout);
  const before = drawing();
  const left = {
    "another number of points": { "data.0": { y: [1, 2, 3], x: [1, 2, 3] } },
    "a value that was not measured": { "data.0": { y: [1, null] } },
    "a symbol of another shape": { "data.0": { "marker.symbol": ["circle", "square"] } },
    "another colour": { "data.0": { "marker.color": "red" } },
    "an area under a curve": { "data.2": { y: [4, 5] } },
    "another number of cells": {
      "data.1": {
        z: [
          [1, 2, 3],
          [4, 5, 6],
        ],
      },
    },
    "another scale": { "data.1": { zmax: 7 } },
    "other markup": { "layout.annotations.0": { text: "a<br>b" } },
    "an annotation that was not drawn": { "layout.annotations.1": { visible: true } },
    "a look of an annotation": { "layout.annotations.0": { opacity: 0.5 } },
    "a shape that is neither rectangle nor path": { "layout.shapes.0": { x0: 0 } },
    "a title on two lines": { "layout.xaxis.title": { text: "a<br>b" } },
    "a range": { "layout.xaxis": { range: [0, 1] } },
  };
  for (const [what, change] of Object.entries(left)) {
    const movable = { "data.0": { y: [2, 1] } };
    assert.equal(moveInPlace(canvas, new Map(Object.entries({ ...movable, ...change }))), false, what);
    assert.equal(drawing(), before, what);
  }
  assert.equal(moveInPlace(document.createElement("div"), new Map()), false, "an element without a drawing");
});

test("the plot area in pixels, and values by pixels", async () => {
  const canvas = await draw({
    data: [{ type: "scatter", x: ["0", "0.1", "1"], y: [1, 2, 3] }],
    layout: { xaxis: categories, margin: { l: 50, r: 30, t: 20, b: 40 } },
  });
  const { left, width, top, height, pixelOf, valueAt } = plotArea(canvas);
  assert.deepEqual({ left, width, top, height }, { left: 50, width: 520, top: 20, height: 340 });
  for (const value of [0, 1, 2]) {
    const pixel = 50 + ((value + 0.45) / 2.9) * 520;
    assert.ok(Math.abs(pixelOf(value) - pixel) < 0.006);
    assert.ok(Math.abs(valueAt(pixel) - value) < 1e-9);
  }
  assert.equal(plotArea(document.createElement("div")), null);
});

test("where cells and rows are drawn, also of uneven columns", async () => {
  const z = [
    [1, 2],
    [3, 4],
  ];
  const layout = { margin: { l: 50, r: 50, t: 40, b: 60 }, yaxis: { range: [-0.5, 1.5] }, xaxis: { range: [0, 5] } };
  const canvas = await draw({ data: [{ type: "heatmap", x: [0, 1, 5], y: [0, 1], z, showscale: false }], layout });
  assert.deepEqual(cellBox(canvas, 0, [0, 0]), { left: 50, top: 190, width: 100, height: 150 });
  assert.deepEqual(cellBox(canvas, 0, [1, 1]), { left: 150, top: 40, width: 400, height: 150 });
  const rows = await draw({
    data: [{ x: [1, 2, 3], y: [0, 1, 2] }],
    layout: { ...layout, yaxis: { range: [-0.5, 2.5] } },
  });
  Object.defineProperty(rows, "clientWidth", { value: 600 });
  assert.deepEqual(rowBox(rows, 0, 2), { left: 0, top: 40, width: 600, height: 100 });
  assert.equal(cellBox(document.createElement("div"), 0, [0, 0]), null);
  assert.equal(spotIn(canvas, 0, [0, 0, 0]), null); // no scene
});

test("after a step plotly draws, and makes its picture, from the values of the step", async () => {
  const figure = {
    data: [{ type: "scatter", mode: "lines+markers", x: [1, 2], y: [] }],
    layout: { xaxis: { range: [0, 3] }, yaxis: { range: [0, 10] } },
    bindings: [
      bind(
        "data.0.y",
        [
          [1, 2],
          [9, 5],
        ],
        "lambda",
      ),
    ],
  };
  const canvas = await walk(figure, [{ gamma: 0, lambda: 1 }]);
  const moved = marksOf(canvas);
  assert.deepEqual(canvas.data[0].y, [9, 5]);
  await Plotly.relayout(canvas, { "margin.l": 80 });
  await Plotly.relayout(canvas, { "margin.l": null });
  assert.deepEqual(marksOf(canvas), moved);
});

test("names in a drawing are names alone", () => {
  const canvas = document.createElement("div");
  canvas.innerHTML = `<p clip-path="url('http://localhost/?study=a#clip1')" style="fill: url(&quot;http://h/b#g2&quot;)"></p>`;
  localReferences(canvas);
  assert.equal(canvas.firstChild.getAttribute("clip-path"), "url(#clip1)");
  assert.equal(canvas.firstChild.getAttribute("style"), "fill: url(#g2)");
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
