/** Flat figures as SVG: where marks lie, computed by hand, and what the pointer is told of them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><body></body>");
const { document, XMLSerializer } = window;
Object.defineProperty(document, "hidden", { value: false }); // a page that is looked at
Object.assign(globalThis, { document, XMLSerializer });
globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });

/** Rectangles that were painted, with their colours. @type {[number[], string][]} */
const painted = [];
window.HTMLCanvasElement.prototype.getContext = () => ({
  fillRect(...box) {
    painted.push([box, this.fillStyle]);
  },
  measureText: (text) => ({ width: 7 * text.length }),
});
window.HTMLCanvasElement.prototype.toDataURL = () => "data:image/png;base64,AA==";

const { FlatDrawing } = await import("../../assets/js/charts/flat/flat_drawing.js");
const { formatNumber, hoverWords } = await import("../../assets/js/charts/flat/format.js");

// Inside the margins 500 pixels from 50 on across, and 300 from 20 on down.
const SIZE = { width: 600, height: 400 };
const MARGIN = { l: 50, r: 50, t: 20, b: 80 };
const [X, Y] = [{ range: [0, 10] }, { range: [0, 3] }]; // 50 and 100 pixels a unit

/** A drawing of traces, with axes of 0 to 10 and 0 to 3 where the layout has no others. */
function drawing(data, layout = {}) {
  const canvas = document.createElement("div");
  Object.defineProperties(canvas, { clientWidth: { value: SIZE.width }, clientHeight: { value: SIZE.height } });
  const flat = new FlatDrawing(canvas);
  flat.draw({ data, layout: { margin: MARGIN, xaxis: X, yaxis: Y, ...layout } }, SIZE);
  return flat;
}

const all = (flat, selector) => [...flat.svg.querySelectorAll(selector)];
const attributes = (flat, selector, ...names) =>
  all(flat, selector).map((element) => names.map((name) => element.getAttribute(name)));
const numbers = (flat, selector, ...names) => attributes(flat, selector, ...names).map((row) => row.map(Number));
const dots = (flat) => numbers(flat, "circle.point", "cx", "cy");
const texts = (flat, selector) => all(flat, selector).map((element) => element.textContent);
const markers = (more) => ({ type: "scatter", mode: "markers", ...more });
const line = (more) => ({ type: "scatter", mode: "lines", ...more });
const label = (flat) => flat.canvas.querySelector(".flat-hover");

const pointer = (flat, type, clientX, clientY, more = {}) =>
  flat.canvas.dispatchEvent(new window.MouseEvent(type, { clientX, clientY, bubbles: true, ...more }));

test("numbers are written as d3 writes them, with a typographic minus", () => {
  for (const [spec, value, text] of [
    [".0f", 2.5, "3"],
    [".1f", -1.25, "−1.3"],
    [",.0f", 1234567, "1,234,567"],
    [",.0%", 12.345, "1,235%"],
    [".1~%", 0.05, "5%"],
    [".1~%", -0.125, "−12.5%"],
    [".3r", 0.0123456, "0.0123"],
    [".3r", 123456, "123000"],
    [".3r", 1, "1.00"],
    [".3r", 0, "0.00"],
    ["+.3r", 0.5, "+0.500"],
    ["+.3r", -0.5, "−0.500"],
    [".3~r", 0.5, "0.5"],
    [".4f", -0.00001, "0.0000"],
    [",", 8192, "8,192"],
  ])
    assert.equal(formatNumber(spec, value), text, `${spec} of ${value}`);
  assert.throws(() => formatNumber(".3s", 1), /\.3s/);
});

test("a hover template takes what a point has", () => {
  const values = { x: 256, y: -0.5, z: 0.01234, text: "t", customdata: [7, "block 0"], meta: ["m"] };
  const filled = (template) => hoverWords(template, values, { x: "axis" });
  assert.deepEqual(filled("%{x:,} tokens: %{text}<extra>unseen</extra>"), { text: "256 tokens: t", extra: "unseen" });
  assert.deepEqual(filled("%{x} %{y} %{y:+.1f}"), { text: "axis −0.5 −0.5", extra: null });
  assert.deepEqual(filled("%{customdata[1]} %{meta[0]} %{z:.3r}<extra></extra>"), {
    text: "block 0 m 0.0123",
    extra: "",
  });
});

test("points lie where their values are, on reversed axes too", () => {
  assert.deepEqual(dots(drawing([markers({ x: [0, 5, 10], y: [0, 1, 3] })])), [
    [50, 320],
    [300, 220],
    [550, 20],
  ]);
  const reversed = { xaxis: { range: [10, 0] }, yaxis: { range: [3, 0] } };
  assert.deepEqual(dots(drawing([markers({ x: [0, 10], y: [0, 3] })], reversed)), [
    [550, 20],
    [50, 320],
  ]);
});

test("the area says where the first axis lies and what is at a pixel", () => {
  assert.equal(new FlatDrawing(document.createElement("div")).area, null);
  const { pixelOf, valueAt, ...box } = drawing([], { xaxis: { range: [0, 10], domain: [0, 0.5] } }).area;
  assert.deepEqual(box, { left: 50, width: 250, top: 20, height: 300 });
  assert.deepEqual([pixelOf(4), valueAt(150)], [150, 4]);
});

test("on a logarithmic axis ranges and notes are powers of ten; data, ticks and shapes are values", () => {
  const layout = {
    xaxis: { type: "log", range: [0, 2], tickvals: [1, 10, 100, 1000], ticktext: ["1", "ten", "100", "beyond"] },
    annotations: [{ text: "n", x: 1, y: 0, showarrow: false, xanchor: "center", yanchor: "middle" }],
    shapes: [{ type: "line", x0: 10, x1: 100, y0: 0, y1: 3 }],
  };
  const flat = drawing([markers({ x: [1, 10, 0], y: [0, 1, 2] })], layout);
  assert.deepEqual(dots(flat), [
    [50, 320],
    [300, 220],
  ]); // 0 is nowhere
  assert.deepEqual(texts(flat, "[data-axis=x] text"), ["1", "ten", "100"]);
  assert.deepEqual(attributes(flat, ".annotation text", "x", "text-anchor"), [["300", "middle"]]);
  assert.deepEqual(attributes(flat, ".shape", "d"), [["M300 320L550 20"]]);
});

test("categories stand in their order, and a number among them is a position", () => {
  const names = { type: "category", categoryarray: ["0", "0.5", "2"], range: [-0.5, 2.5], tickvals: ["0", "2"] };
  const shapes = [{ type: "rect", yref: "paper", x0: 0.5, x1: 2, y0: 0, y1: 1 }];
  const flat = drawing([markers({ x: ["2", "0"], y: [0, 0] })], { xaxis: names, shapes });
  const third = 500 / 3;
  assert.deepEqual(
    dots(flat).map(([x]) => x),
    [50 + 2.5 * third, 50 + 0.5 * third].map((x) => Math.round(100 * x) / 100),
  );
  assert.deepEqual(texts(flat, "[data-axis=x] text"), ["0", "2"]);
  assert.deepEqual(attributes(flat, ".shape", "d"), [["M216.67 320H466.67V20H216.67Z"]]);
  const appeared = { yaxis: { type: "category", range: [-0.5, 1.5] } };
  const other = drawing([markers({ x: [0, 0, 0], y: ["b", "a", "b"] })], appeared);
  assert.deepEqual(texts(other, "[data-axis=y] text"), ["b", "a"]);
  assert.deepEqual(
    dots(other).map(([, y]) => y),
    [245, 95, 245],
  );
});

test("a line is broken by what is missing, or goes on", () => {
  const path = (more) => attributes(drawing([line({ x: [0, 1, 2, 3], ...more })]), ".line", "d")[0][0];
  assert.equal(path({ y: [0, 1, null, 2] }), "M50 320L100 220M200 120");
  assert.equal(path({ y: [0, 1, Number.NaN, 2], connectgaps: true }), "M50 320L100 220L200 120");
  assert.equal(path({ y: [0, 1], line: { shape: "hv" } }), "M50 320H100V220");
});

test("dashes have names or lengths", () => {
  const dashed = (name, width) => drawing([line({ x: [0, 1], y: [0, 1], line: { dash: name, width } })]);
  const dash = (name, width) => attributes(dashed(name, width), ".line", "stroke-dasharray")[0][0];
  assert.deepEqual([dash("solid", 2), dash("dot", 4), dash("dash", 2)], [null, "4 4", "9 9"]);
  assert.equal(dash("2px 3px", 1), "2 3");
});

test("error bars reach as far as they say, with caps to both sides", () => {
  const bars = { array: [0.5, 0], arrayminus: [1, 0], symmetric: false, width: 4, color: "red", thickness: 1.5 };
  const flat = drawing([markers({ x: [2, 4], y: [1, 2], error_y: bars })]);
  assert.deepEqual(attributes(flat, ".error", "d", "stroke"), [["M146 320h8M150 320V170m-4 0h8", "red"]]);
  const across = drawing([markers({ x: [2], y: [1], error_x: { array: [1], width: 3 } })]);
  assert.deepEqual(attributes(across, ".error", "d"), [["M100 217v6M100 220H200m0 -3v6"]]);
});

test("an area lies between a line and the one before", () => {
  const lines = [line({ x: [0, 2], y: [0, 0] }), line({ x: [0, 2], y: [1, 2], fill: "tonexty", fillcolor: "pink" })];
  assert.deepEqual(attributes(drawing(lines), "[data-trace='1'] .fill", "d", "fill"), [
    ["M50 220L150 120L150 320L50 320Z", "pink"],
  ]);
  assert.throws(() => drawing([{ ...lines[1], fill: "toself" }]), /toself/);
});

test("markers have a look each", () => {
  const marker = {
    symbol: ["circle", "circle-open", "square", "x-thin"],
    size: [8, 10, 6, 4],
    color: ["red", "green", "blue", "black"],
    line: { color: "white", width: 2 },
  };
  const flat = drawing([markers({ x: [0, 1, 2, 3], y: [1, 1, 1, 1], marker })]);
  assert.deepEqual(attributes(flat, ".point", "fill", "stroke", "r", "d"), [
    ["red", "white", "4", null],
    ["none", "green", "5", null],
    ["blue", "white", null, "M147 217L153 217L153 223L147 223Z"],
    ["none", "white", null, "M202 222L198 218M202 218L198 222"],
  ]);
  const edge = { symbol: "circle", color: "#fff", line: { width: 2, dash: "2px 2px" } };
  const dashed = drawing([markers({ x: [1], y: [1], marker: edge })]);
  assert.deepEqual(attributes(dashed, "circle.point", "stroke-dasharray"), [["2 2"]]);
  assert.throws(() => drawing([markers({ x: [1], y: [1], marker: { symbol: "star" } })]), /star/);
});

test("what is not on its axes is cut, and markers that may stand over the edge are not", () => {
  const points = { x: [0, 5, 11], y: [0, 1, 1] };
  const [cut] = attributes(drawing([markers(points)]), ".trace g:last-child", "clip-path");
  assert.match(cut[0], /^url\(#/);
  const free = drawing([markers({ ...points, cliponaxis: false })]);
  assert.deepEqual(attributes(free, ".trace g:last-child", "clip-path"), [[null]]);
  assert.equal(dots(free).length, 2);
  assert.deepEqual(numbers(free, "clipPath rect", "x", "y", "width", "height"), [[50, 20, 500, 300]]);
});

test("words at a point keep off its marker", () => {
  const said = { mode: "markers+text", text: ["a", "b"], textposition: ["middle right", "top center"] };
  const flat = drawing([markers({ x: [0, 2], y: [1, 1], marker: { size: 8 }, textfont: { size: 10 }, ...said })]);
  // 8 / 1.6 + 1 pixels off; a baseline a quarter of the size below the middle, or above the gap.
  assert.deepEqual(attributes(flat, ".trace text", "x", "y", "text-anchor"), [
    ["56", "222.5", "start"],
    ["150", "211.5", "middle"],
  ]);
});

test("bars begin at their base, upright or lying", () => {
  const names = { type: "category", range: [-0.5, 1.5] };
  const upright = { type: "bar", x: ["a", "b"], y: [1, 2], width: 0.5, text: ["1", "2"], textposition: "outside" };
  const flat = drawing([{ ...upright, textfont: { size: 12 } }], { xaxis: names });
  assert.deepEqual(numbers(flat, ".point", "x", "y", "width", "height"), [
    [112.5, 220, 125, 100],
    [362.5, 120, 125, 200],
  ]);
  assert.deepEqual(attributes(flat, ".trace text", "x", "y"), [
    ["175", "214"],
    ["425", "114"],
  ]);
  const lying = { type: "bar", orientation: "h", x: [3, -2], y: [1, 2], base: [1, 4], width: 0.5 };
  const more = drawing([{ ...lying, error_x: { array: [1, 1], arrayminus: [0, 0], symmetric: false } }]);
  assert.deepEqual(numbers(more, ".point", "x", "y", "width", "height"), [
    [100, 195, 150, 50],
    [150, 95, 100, 50],
  ]);
  assert.match(attributes(more, ".error", "d")[0][0], /^M250 216v8M250 220H300/);
});

const SCALE = [
  [0, "#000000"],
  [1, "#ffffff"],
];
const CELLS = { type: "heatmap", showscale: false, zmin: 0, zmax: 2, colorscale: SCALE };

test("the cells of a heatmap lie around their middles, and one without a value stays empty", () => {
  painted.length = 0;
  const z = [
    [0, 1],
    [null, 2],
  ];
  const layout = { xaxis: { range: [0, 4] }, yaxis: { range: [-0.5, 1.5] } };
  const flat = drawing([{ ...CELLS, z, x: [1, 3], xgap: 2, ygap: 4 }], layout);
  assert.deepEqual(numbers(flat, "image", "x", "y", "width", "height"), [[50, 20, 500, 300]]);
  // From the upper left corner of the picture; rows go upwards, and half of a gap is at each side.
  assert.deepEqual(painted, [
    [[1, 152, 248, 146], "rgb(0,0,0)"],
    [[251, 152, 248, 146], "rgb(128,128,128)"],
    [[251, 2, 248, 146], "rgb(255,255,255)"],
  ]);
  assert.deepEqual(flat.cellBox(0, [1, 0]), { left: 50, top: 20, width: 250, height: 150 });
  assert.equal(flat.cellBox(0, [2, 0]), null);
  assert.equal(flat.cellBox(1, [0, 0]), null);
});

test("cells of one size without gaps are a pixel each; edges may be given; nothing is needed around cells", () => {
  painted.length = 0;
  drawing([{ ...CELLS, z: [[0, 2]] }], { xaxis: {}, yaxis: {} });
  assert.deepEqual(
    painted.map(([box]) => box),
    [
      [0, 0, 1, 1],
      [1, 0, 1, 1],
    ],
  );
  const flat = drawing([{ ...CELLS, z: [[0, 2]], x: [0, 1, 5] }], { xaxis: {} });
  assert.deepEqual(flat.cellBox(0, [0, 1]), { left: 150, top: 270, width: 400, height: 100 });
});

test("a colour bar names values from below upwards, under its title", () => {
  const bar = { thickness: 8, len: 1, x: 1.02, xpad: 0, ypad: 2, outlinewidth: 0, tickfont: { size: 10 } };
  const colorbar = { ...bar, tickvals: [0, 1, 2, 3], ticktext: ["none", "some", "all", "beyond"] };
  const flat = drawing([{ ...CELLS, z: [[0, 2]], showscale: true, colorbar }]);
  assert.deepEqual(numbers(flat, ".colorbar rect", "x", "y", "width", "height"), [[560, 22, 8, 296]]);
  assert.deepEqual(texts(flat, ".colorbar text"), ["none", "some", "all"]);
  assert.deepEqual(
    numbers(flat, ".colorbar text", "x", "y"),
    [318, 170, 22].map((middle) => [570.5, middle + 3.5]), // a size of 10: 2.5 pixels off, its middle 3.5 higher
  );
  assert.deepEqual(attributes(flat, "stop", "offset", "stop-color"), [
    ["0", "#000000"],
    ["1", "#ffffff"],
  ]);
  const title = { text: "error", font: { size: 10 } };
  const titled = drawing([{ ...CELLS, z: [[0, 2]], showscale: true, colorbar: { ...colorbar, title } }]);
  assert.deepEqual(numbers(titled, ".colorbar rect", "y", "height"), [[40, 278]]);
  const reversed = drawing([{ ...CELLS, z: [[0, 2]], showscale: true, colorscale: "Cividis", reversescale: true }]);
  assert.deepEqual(
    attributes(reversed, "stop", "offset", "stop-color").filter((_, at) => at % 4 === 0),
    [
      ["0", "rgb(255,233,69)"],
      ["1", "rgb(0,32,76)"],
    ],
  );
  assert.throws(() => drawing([{ ...CELLS, z: [[1]], colorscale: "Jet" }]), /Jet/);
});

test("an axis without a range has the air that plotly gives it", () => {
  // Measured: plotly 6 on a plot of 490 × 340 pixels, markers of 9 pixels.
  const canvas = document.createElement("div");
  const flat = new FlatDrawing(canvas);
  const layout = { margin: { l: 50, r: 60, t: 20, b: 40 }, xaxis: {}, yaxis: {} };
  flat.draw({ data: [markers({ x: [0, 1, 2], y: [1, 2, 3], marker: { size: 9 } })], layout }, SIZE);
  const near = (value, wanted) => assert.ok(Math.abs(value - wanted) < 0.002, `${value} ≠ ${wanted}`);
  near(flat.area.valueAt(50), -0.1406);
  near(flat.area.valueAt(540), 2.1406);
  near(flat.plane.axis("y").range[0], 0.8465);
  near(flat.plane.axis("y").range[1], 3.1535);
});

test("round ticks are plotly's, and so is how they are written", () => {
  // Measured: plotly 6 with five ticks at most.
  for (const [range, written] of [
    [[0, 200], "0 50 100 150 200"],
    [[0.01, 0.05], "0.01 0.02 0.03 0.04 0.05"],
    [[0.00001, 0.00005], "10μ 20μ 30μ 40μ 50μ"],
    [[0, 20000], "0 5k 10k 15k 20k"],
    [[-3000, 3000], "−2000 0 2000"],
    [[95, 105.5], "95 100 105"],
  ])
    assert.equal(texts(drawing([], { yaxis: { range, nticks: 5 } }), "[data-axis=y] text").join(" "), written);
  const given = { range: [0.1, 1], tick0: 0, dtick: 0.25, tickformat: ".2f" };
  assert.deepEqual(texts(drawing([], { yaxis: given }), "[data-axis=y] text"), ["0.25", "0.50", "0.75", "1.00"]);
});

test("names that would touch are left out, zero stays, and so do the lines", () => {
  const flat = drawing([], { xaxis: { range: [-200, 0], domain: [0, 0.1], nticks: 3 } }); // 25 pixels from name to name
  assert.deepEqual(texts(flat, "[data-axis=x] text"), ["−200", "0"]);
  assert.equal(attributes(flat, "[data-axis=x] .grid", "d")[0][0].split("M").length - 1, 3);
});

test("of numbers that a figure names, those that touch the one before are left out; lines and words stay", () => {
  const places = ["0", "0.01", "0.02", "1"];
  const lams = { type: "category", categoryarray: places, range: [-0.5, 3.5], tickvals: places, ticktext: places };
  const drawn = (/** @type {number} */ end) => drawing([], { xaxis: { ...lams, domain: [0, end] } });
  assert.deepEqual(texts(drawn(1), "[data-axis=x] text"), places);
  const narrow = drawn(0.2); // 25 pixels from name to name
  assert.deepEqual(texts(narrow, "[data-axis=x] text"), ["0", "0.01", "1"]);
  assert.equal(attributes(narrow, "[data-axis=x] .grid", "d")[0][0].split("M").length - 1, 4);
  const words = drawing([], { xaxis: { ...lams, domain: [0, 0.2], ticktext: ["query", "key", "value", "gate"] } });
  assert.deepEqual(texts(words, "[data-axis=x] text"), ["query", "key", "value", "gate"]);
});

test("names of ticks, grid lines and titles stand around the plots of an axis", () => {
  const layout = {
    font: { size: 10 },
    template: { layout: { xaxis: { title: { font: { size: 10 } } } } },
    xaxis: { ...X, tickvals: [0, 10], anchor: "y2", ticklabelstandoff: 4, title: { text: "across", standoff: 5 } },
    yaxis: { ...Y, tickvals: [0], domain: [0.6, 1], title: { text: "up", standoff: 5, font: { size: 10 } } },
    yaxis2: { ...Y, tickvals: [1], domain: [0, 0.4], anchor: "x", ticks: "outside", ticklen: 6, showgrid: false },
  };
  const flat = drawing([markers({ x: [1], y: [1] })], layout);
  assert.deepEqual(attributes(flat, "[data-axis=x] .grid", "d"), [["M50 140V20M550 140V20M50 320V200M550 320V200"]]);
  assert.deepEqual(attributes(flat, "[data-axis=y] .grid", "d"), [["M50 140H550"]]);
  assert.equal(all(flat, "[data-axis=y2] .grid").length, 0);
  // One pixel, the standoff and a line below the axis: 320 + 1 + 4 + 10; a title under what hangs below that.
  assert.deepEqual(attributes(flat, "[data-axis=x] text:not(.axis-title)", "x", "y"), [
    ["50", "335"],
    ["550", "335"],
  ]);
  assert.deepEqual(attributes(flat, "[data-axis=x] .axis-title", "x", "y", "text-anchor"), [
    ["300", "349.5", "middle"],
  ]);
  assert.deepEqual(attributes(flat, "[data-axis=y] text:not(.axis-title)", "x", "y"), [["49", "143.5"]]);
  assert.deepEqual(attributes(flat, "[data-axis=y2] text", "x"), [["41"]]); // 1 + 6 + a fifth of the size
  // A digit of 7 pixels and one to the axis, the standoff, and the part of the letters under their middle.
  assert.deepEqual(attributes(flat, "[data-axis=y] .axis-title", "transform"), [["rotate(-90 33.5 80)"]]);
  const bare = drawing([], { xaxis: { ...X, visible: false }, yaxis: { ...Y, showticklabels: false } });
  assert.equal(all(bare, "[data-axis=x]").length, 0);
  assert.equal(all(bare, "[data-axis=y] text").length, 0);
});

test("shapes lie behind or before the traces, on axes, domains or the paper", () => {
  const paper = { xref: "paper", yref: "paper" };
  const shapes = [
    { type: "line", xref: "x", yref: "y domain", x0: 5, x1: 5, y0: 0, y1: 1, line: { width: 3, color: "red" } },
    { type: "rect", ...paper, x0: 0, x1: 1, y0: 0, y1: 0.5, layer: "below", fillcolor: "pink", line: { width: 0 } },
    { type: "path", path: "M1,0L2,1Z", layer: "below" },
  ];
  const flat = drawing([markers({ x: [1], y: [1] })], { shapes });
  assert.deepEqual(attributes(flat, ".shape", "data-index", "d", "fill", "stroke"), [
    ["1", "M50 320H550V170H50Z", "pink", "none"],
    ["2", "M100 320L150 220Z", "none", "#444"],
    ["0", "M300 320L300 20", "none", "red"],
  ]);
  const layers = [...flat.svg.children].map((child) => child.getAttribute("class"));
  assert.deepEqual(layers, [null, "shapes below", "axis", "axis", "trace", "shapes"]);
});

const note = (more) => ({ text: "note", showarrow: false, font: { size: 10 }, borderpad: 0, borderwidth: 0, ...more });

test("a note that is pointed at says more", () => {
  const annotations = [note({ x: 1, y: 1, hovertext: "λ = 0.02: without a sweep" }), note({ x: 2, y: 1 })];
  const flat = drawing([], { annotations });
  assert.equal(all(flat, ".annotation").length, 2);
  assert.deepEqual(texts(flat, ".annotation[data-index='0'] title"), ["λ = 0.02: without a sweep"]);
  assert.equal(all(flat, ".annotation title").length, 1);
});

test("notes are anchored, shifted, hidden and numbered", () => {
  const paper = { xref: "paper", yref: "paper" };
  const annotations = [
    note({ x: 2, y: 1, xanchor: "left", yanchor: "top", xshift: 4, yshift: 10 }),
    note({ x: 2, y: 1, visible: false }),
    note({ ...paper, x: 1, y: 1 }), // at the nearer corner
    note({ x: 11, y: 1 }), // beyond its axis
    note({ x: 2, y: 1, text: "a<br>b", xanchor: "left", yanchor: "middle", align: "left", opacity: 0.5 }),
  ];
  const flat = drawing([], { annotations });
  assert.deepEqual(attributes(flat, ".annotation", "data-index", "opacity"), [
    ["0", null],
    ["2", null],
    ["4", "0.5"],
  ]);
  // Nine tenths of a size from the top of a line of thirteen to its baseline.
  assert.deepEqual(attributes(flat, ".annotation text", "x", "y", "text-anchor"), [
    ["154", "219", "start"],
    ["550", "29", "end"],
    ["150", "216", "start"],
  ]);
  assert.deepEqual(attributes(flat, ".annotation tspan", "x", "y"), [
    ["150", "216"],
    ["150", "229"],
  ]);
});

test("a note has a ground as large as its words, at the end of its pole", () => {
  const pole = { showarrow: true, ax: 0, ay: 20, arrowcolor: "grey", arrowwidth: 1, bgcolor: "white" };
  const annotations = [note({ ...pole, x: 2, y: 0, xanchor: "left", yanchor: "middle", borderpad: 1, borderwidth: 1 })];
  const flat = drawing([], { annotations });
  assert.deepEqual(attributes(flat, ".annotation path", "d", "stroke"), [["M150 320L150 340", "grey"]]);
  // Four letters of 7 pixels, a line of 13, and 2 pixels around; the ground ends in the middle of the border.
  assert.deepEqual(numbers(flat, ".annotation rect", "x", "y", "width", "height"), [[150.5, 332, 31, 16]]);
  assert.deepEqual(attributes(flat, ".annotation text", "x"), [["152"]]);
});

test("markup is bold and coloured text, and nothing else becomes an element", () => {
  const text = '<b>bold</b> <span style="color:rgb(1, 2, 3)">ink &amp; more</span><script>alert(1)</script><i>';
  const annotations = [note({ text, x: 1, y: 1 }), note({ text: '<span style="color:url(http://h/)">x', x: 1, y: 1 })];
  const flat = drawing([markers({ x: [1], y: [1], hovertemplate: `${text}<img src=x>` })], { annotations });
  assert.deepEqual(attributes(flat, "tspan", "font-weight", "fill"), [
    ["600", null],
    [null, "rgb(1, 2, 3)"],
  ]);
  const [first, second] = texts(flat, ".annotation text");
  assert.equal(first, "bold ink & more<script>alert(1)</script><i>");
  assert.equal(second, '<span style="color:url(http://h/)">x');
  pointer(flat, "pointermove", 100, 220);
  assert.equal(label(flat).textContent, "bold ink & more<script>alert(1)</script><i><img src=x>");
  assert.equal(flat.canvas.querySelectorAll("script, img, i").length, 0);
});

test("the nearest point within reach speaks and is reported once; without one there is silence", () => {
  const template = "λ = %{x}: %{text}<extra>%{customdata}</extra>";
  const points = { x: [0, 5], y: [0, 1], text: ["a", "b"], customdata: ["p", "q"], hovertemplate: template };
  const quiet = markers({ x: [5], y: [1], hoverinfo: "skip" });
  const flat = drawing([markers(points), quiet]);
  const reports = [];
  flat.hovered = (there) => reports.push(there);
  pointer(flat, "pointermove", 312, 220);
  pointer(flat, "pointermove", 310, 222);
  assert.deepEqual([label(flat).hidden, label(flat).textContent], [false, "λ = 5: bq"]);
  pointer(flat, "pointermove", 310, 220, { buttons: 1 }); // something is dragged
  assert.equal(label(flat).hidden, true);
  pointer(flat, "pointermove", 330, 220); // 30 pixels away, with a marker of 3
  const point = { x: 5, y: 1, text: "b", curveNumber: 0, pointNumber: 1, customdata: "q" };
  assert.deepEqual(reports, [[point], []]);
  const clicks = [];
  flat.clicked = (points) => clicks.push(points);
  pointer(flat, "click", 400, 100);
  pointer(flat, "click", 305, 220);
  assert.deepEqual(clicks, [[point]]);
  flat.canvas.dispatchEvent(new window.MouseEvent("pointerleave"));
  assert.equal(label(flat).hidden, true);
  assert.equal(reports.length, 4);
});

test("a cell says what is in it, by row and column; an empty one nothing where gaps are silent", () => {
  const z = [
    [0, 1],
    [null, 2],
  ];
  const customdata = [
    [[1], [2]],
    [[3], [4]],
  ];
  const axes = { xaxis: { range: [-0.5, 1.5] }, yaxis: { range: [-0.5, 1.5] } };
  const flat = drawing(
    [{ ...CELLS, z, x: ["l", "r"], customdata, hoverongaps: false, hovertemplate: "%{z:.1f} %{customdata[0]}" }],
    { ...axes, xaxis: { ...axes.xaxis, type: "category" } },
  );
  const reports = [];
  flat.hovered = (points) => reports.push(points);
  pointer(flat, "pointermove", 500, 100);
  assert.equal(label(flat).textContent, "2.0 4");
  pointer(flat, "pointermove", 100, 100);
  const cell = { x: "r", y: 1, z: 2, text: undefined, curveNumber: 0, pointNumber: [1, 1], customdata: [4] };
  assert.deepEqual(reports, [[cell], []]);
  flat.draw({ data: [{ ...CELLS, z, hoverinfo: "none" }], layout: { margin: MARGIN, ...axes } }, SIZE);
  pointer(flat, "pointermove", 500, 100);
  assert.deepEqual([label(flat).hidden, reports.length], [true, 3]); // reported, but not said
});

test("a unified label has a row for each trace of all panels at the nearest place", () => {
  const names = { type: "category", categoryarray: ["0", "0.1"], range: [-0.5, 1.5] };
  const layout = {
    hovermode: "x unified",
    hoversubplots: "axis",
    hoverlabel: { bgcolor: "rgb(1, 2, 3)", font: { color: "rgb(4, 5, 6)" } },
    xaxis: { ...names, anchor: "y2", unifiedhovertitle: { text: "λ = %{x}" } },
    yaxis: { ...Y, domain: [0.6, 1] },
    yaxis2: { ...Y, domain: [0, 0.4] },
  };
  const curve = (name, y, more) => line({ mode: "lines+markers", x: ["0", "0.1"], y, name, ...more });
  const data = [
    curve("upper", [1, 2], { text: ["u0", "u1"], hovertemplate: "%{text}", line: { color: "rgb(9, 9, 9)" } }),
    curve("lower", [1, 2], { text: ["l0", "l1"], hovertemplate: "%{text}<extra></extra>", yaxis: "y2" }),
    curve("gone", [1, null], { text: ["g0", "g1"], hovertemplate: "%{text}" }),
    curve("ring", [1, 2], { hoverinfo: "skip" }),
  ];
  const flat = drawing(data, layout);
  pointer(flat, "pointermove", 400, 60);
  const rows = () => [...label(flat).querySelectorAll(".flat-hover-row")].map((row) => row.textContent);
  assert.equal(label(flat).querySelector(".flat-hover-title").textContent, "λ = 0.1");
  assert.deepEqual(rows(), ["upper: u1", "l1"]);
  assert.equal(label(flat).querySelector(".flat-hover-row div").style.background, "rgb(9, 9, 9)");
  assert.deepEqual([label(flat).style.background, label(flat).style.color], ["rgb(1, 2, 3)", "rgb(4, 5, 6)"]);
  assert.equal(label(flat).getAttribute("aria-hidden"), "true");
  const alone = drawing(data, { ...layout, hoversubplots: undefined });
  pointer(alone, "pointermove", 150, 300);
  assert.equal(label(alone).querySelectorAll(".flat-hover-row").length, 1); // the panel under the pointer
});

test("the row of a point goes over the whole width", () => {
  const flat = drawing([markers({ x: [0], y: [1] })]);
  assert.deepEqual(flat.rowBox(0, 0), { left: 0, top: 170, width: 600, height: 100 });
  assert.equal(flat.rowBox(0, 1), null);
});

test("what is not known is an error that names it", () => {
  assert.throws(() => drawing([{ type: "surface", z: [] }]), /surface/);
  assert.throws(() => drawing([], { shapes: [{ type: "circle", x0: 0, x1: 1, y0: 0, y1: 1 }] }), /circle/);
  assert.throws(() => drawing([], { xaxis: { type: "date", range: [0, 1] } }), /date/);
  assert.throws(() => drawing([], { annotations: [note({ xref: "x7", x: 0, y: 0 })] }), /x7/);
});

test("a drawing is replaced, saved as a document, and taken away", () => {
  const flat = drawing([markers({ x: [1], y: [1] })], { font: { family: "Inter", size: 12, color: "#222222" } });
  flat.draw({ data: [markers({ x: [2], y: [1] })], layout: { ...flat.layout } }, SIZE);
  assert.deepEqual(dots(flat), [[150, 220]]);
  assert.equal(flat.canvas.querySelectorAll("svg.flat").length, 1);
  const page = new window.DOMParser().parseFromString(
    flat.svgText({ title: "A < B", ground: "#fff" }),
    "image/svg+xml",
  );
  const root = page.documentElement;
  assert.deepEqual(
    [root.namespaceURI, ...["width", "height", "font-family"].map((name) => root.getAttribute(name))],
    ["http://www.w3.org/2000/svg", "600", "430", "Inter"],
  );
  assert.deepEqual(
    [root.querySelector("rect").getAttribute("fill"), root.querySelector("text").textContent],
    ["#fff", "A < B"],
  );
  assert.equal(root.querySelector(".trace").closest("[transform]").getAttribute("transform"), "translate(0 30)");
  assert.equal(root.querySelector(".flat-hover"), null);
  flat.clear();
  assert.deepEqual([flat.area, flat.svg.childNodes.length, flat.data.length], [null, 0, 0]);
});

const KEYED = { ...markers({ ids: ["a", "b"], x: [2, 4], y: [1, 2] }), error_y: { array: [1, 0.5], width: 0 } };

/** What is animated by a second drawing: the key's first frame. */
function hops(before, after, { isReduced = false, width = SIZE.width } = {}) {
  const frames = [];
  window.SVGElement.prototype.animate = function (keyframes) {
    frames.push([this.tagName, keyframes[0]]);
  };
  const media = globalThis.matchMedia;
  globalThis.matchMedia = () => ({ matches: isReduced, addEventListener() {} });
  const flat = drawing([before]);
  flat.draw({ data: [after], layout: { margin: MARGIN, xaxis: X, yaxis: Y } }, { ...SIZE, width });
  globalThis.matchMedia = media;
  delete window.SVGElement.prototype.animate;
  return frames;
}

test("a mark with a key comes from its former place, and its interval shrinks", () => {
  // “a” goes from 1 to 2, a hundred pixels up; its interval is half as long: from 120..320 to 70..170 pixels.
  const after = { ...KEYED, y: [2, 2], error_y: { array: [0.5, 0.5], width: 0 } };
  assert.deepEqual(hops(KEYED, after), [
    ["circle", { transform: "matrix(1, 0, 0, 1, 0, 100)" }],
    ["path", { transform: "matrix(1, 0, 0, 2, 0, -20)" }],
  ]);
});

test("what is new appears, and nothing moves without a reason", () => {
  const one = { ...KEYED, ids: ["a"], x: [2], y: [1] };
  assert.deepEqual(hops(one, KEYED), [
    ["circle", { opacity: 0 }],
    ["path", { opacity: 0 }],
  ]);
  assert.deepEqual(hops(KEYED, KEYED), []);
  const moved = { ...KEYED, y: [2, 1] };
  assert.deepEqual(hops({ ...KEYED, ids: undefined }, { ...moved, ids: undefined }), []);
  assert.deepEqual(hops(KEYED, moved, { isReduced: true }), []);
  assert.deepEqual(hops(KEYED, moved, { width: 500 }), []); // another size is not a move
});
