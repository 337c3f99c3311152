/** Surfaces on a canvas: where points are seen, what hides what, the curtain, colours, labels, and what the pointer is at. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createCanvas } from "@napi-rs/canvas";
import { JSDOM } from "jsdom";
import { numbersFrom } from "./given.js";

const { window } = new JSDOM("<!doctype html><body></body>", { pretendToBeVisual: true });
const { document, Element, XMLSerializer } = window;
const still = { now: false };
Object.assign(globalThis, { window, document, Element, XMLSerializer });
globalThis.matchMedia = () => ({ matches: still.now, addEventListener() {} });
window.HTMLCanvasElement.prototype.getContext = function () {
  this.real ??= createCanvas(1, 1);
  [this.real.width, this.real.height] = [this.width, this.height];
  const brush = this.real.getContext("2d");
  const draw = brush.drawImage.bind(brush);
  brush.drawImage = (image, ...rest) => draw(image.real, ...rest);
  return brush;
};
/** Frames that were asked for, called by hand. @type {((now: number) => void)[]} */
let frames = [];
globalThis.requestAnimationFrame = (call) => frames.push(call);
globalThis.cancelAnimationFrame = () => {
  frames = [];
};
after(() => window.close());

const load = (name) => import(`../../assets/js/charts/${name}.js`);
const { channels, shadesOf, stopsOf } = await load("color_scale");
const { Field, paint, pointAt, project } = await load("surface/field");
const { Morph } = await load("surface/morph");
const { peaksOf } = await load("surface/peaks");
const { Pixels } = await load("surface/pixels");
const { boxFor, FIRST, Projection, turned, zoomed } = await load("surface/projection");
const { HEIGHTS, SHADES, cssOf, shadesTable } = await load("surface/shades");
const { SurfaceDrawing } = await load("surface/surface_drawing");

const AREA = { left: 40, top: 30, width: 500, height: 320 };
const SCALE = { low: 0, high: 1, coldest: 0, warmest: 1 };
const AZIMUTHS = [-2.9, -1.9, -1.13, -0.3, 0.4, 1.3, 2.2, 3];

// --- Projection ------------------------------------------------------------------------------------------------------

const dot = (one, other) => one.reduce((sum, value, at) => sum + value * other[at], 0);
const cross = ([a, b, c], [d, e, f]) => [b * f - c * e, c * d - a * f, a * e - b * d];
const unit = (vector) => vector.map((value) => value / Math.hypot(...vector));

test("points are seen along the line of sight, by vectors to the right and upwards", () => {
  const random = numbersFrom(3);
  for (const azimuth of AZIMUTHS) {
    const camera = { azimuth, elevation: 0.2 + random(), zoom: 1 + random() };
    const box = boxFor(AREA);
    const projection = new Projection(camera, box, AREA);
    const flat = Math.cos(camera.elevation);
    const sight = [flat * Math.cos(azimuth), flat * Math.sin(azimuth), Math.sin(camera.elevation)];
    const right = unit(cross([0, 0, 1], sight));
    const up = cross(sight, right);
    const middle = [AREA.left + AREA.width / 2, AREA.top + AREA.height / 2];
    const pixels = Math.hypot(projection.xx, projection.xy); // of a unit
    for (let round = 0; round < 20; round += 1) {
      const point = [random() - 0.5, random() - 0.5, random()];
      const centred = [point[0], point[1], point[2] - box.height / 2];
      assert.ok(Math.abs(projection.left(point[0], point[1]) - middle[0] - pixels * dot(centred, right)) < 1e-6);
      assert.ok(Math.abs(projection.top(...point) - middle[1] + pixels * dot(centred, up)) < 1e-6);
    }
  }
});

test("a box that is turned stays inside its area", () => {
  for (const area of [AREA, { ...AREA, height: 200 }, { ...AREA, width: 300, height: 330 }]) {
    const box = boxFor(area);
    for (const azimuth of AZIMUTHS) {
      for (const elevation of [0.15, 0.7, 1.3]) {
        const projection = new Projection({ azimuth, elevation, zoom: 1 }, box, area);
        for (const x of [-box.width / 2, box.width / 2]) {
          for (const y of [-0.5, 0.5]) {
            for (const z of [0, box.height]) {
              const [left, top] = [projection.left(x, y) - area.left, projection.top(x, y, z) - area.top];
              assert.ok(left > -1e-6 && left < area.width + 1e-6 && top > -1e-6 && top < area.height + 1e-6);
            }
          }
        }
      }
    }
  }
});

test("a drag turns within limits, and zooms end somewhere", () => {
  const aside = turned(FIRST, 100, 0);
  assert.notEqual(aside.azimuth, FIRST.azimuth);
  assert.equal(aside.elevation, FIRST.elevation);
  for (const dy of [-9999, 9999]) {
    const { elevation } = turned(FIRST, 0, dy);
    assert.ok(elevation > 0 && elevation < Math.PI / 2);
  }
  assert.equal(zoomed(zoomed(FIRST, 1e9), 1e9).zoom, zoomed(FIRST, 1e9).zoom);
  assert.ok(zoomed(FIRST, 1e-9).zoom > 0.3);
});

// --- What hides what -------------------------------------------------------------------------------------------------

/** A field of random heights, and its projection. */
function sceneOf({ azimuth, elevation = 0.6, rows = 7, columns = 9, seed = 1 }) {
  const random = numbersFrom(seed);
  const box = boxFor(AREA);
  const projection = new Projection({ azimuth, elevation, zoom: 1 }, box, AREA);
  const field = new Field(
    rows,
    columns,
    Float32Array.from({ length: rows * columns }, () => random() ** 2),
  );
  project(field, { from: 0, to: columns - 1, shift: 0 }, projection, box, SCALE);
  return { box, projection, field, random };
}

/** The triangles of a field in the order in which they are drawn. */
function drawnOf({ field, projection, box }) {
  const drawn = [];
  const triangle = (ax, ay, bx, by, cx, cy) => drawn.push([ax, ay, bx, by, cx, cy]);
  paint(field, { triangle }, projection, box, SCALE);
  return drawn;
}

/** Shares of the corners of a triangle in a point; null outside. */
function sharesIn([ax, ay, bx, by, cx, cy], x, y) {
  const whole = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
  const b = ((x - ax) * (cy - ay) - (y - ay) * (cx - ax)) / whole;
  const c = ((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / whole;
  return Math.min(b, c, 1 - b - c) > 1e-9 ? [1 - b - c, b, c] : null;
}

/** How near a corner is to the viewer, found by where it is seen. */
function depths({ field, projection, box }) {
  const { towards } = projection;
  const found = new Map();
  for (let row = 0; row < field.rows; row += 1) {
    for (let column = 0; column < field.columns; column += 1) {
      const at = field.at(row, column);
      const x = (column / (field.columns - 1) - 0.5) * box.width;
      const y = row / (field.rows - 1) - 0.5;
      const near = x * towards.x + y * towards.y + field.values[at] * box.height * towards.z;
      found.set(`${field.lefts[at]},${field.tops[at]}`, near);
    }
  }
  return found;
}

test("of all faces in a place the nearest one is drawn last, from every side", () => {
  for (const [seed, azimuth] of AZIMUTHS.entries()) {
    const scene = sceneOf({ azimuth, seed: seed + 1, elevation: 0.25 + 0.1 * seed });
    const drawn = drawnOf(scene);
    assert.equal(drawn.length, 2 * 6 * 8);
    const near = depths(scene);
    let several = 0;
    for (let round = 0; round < 1500; round += 1) {
      const [x, y] = [AREA.left + scene.random() * AREA.width, AREA.top + scene.random() * AREA.height];
      const there = drawn
        .map((triangle) => ({ triangle, shares: sharesIn(triangle, x, y) }))
        .filter(({ shares }) => shares !== null)
        .map(({ triangle, shares }) =>
          [0, 2, 4].reduce((sum, at, k) => sum + shares[k] * near.get(`${triangle[at]},${triangle[at + 1]}`), 0),
        );
      if (there.length > 1) several += 1;
      if (there.length) assert.ok(there.at(-1) > Math.max(...there) - 1e-6, `from ${azimuth}: ${there}`);
    }
    assert.ok(several > 20, `${several} places with something behind`);
  }
});

test("the pointer is at the nearest point of the cell that is seen", () => {
  for (const azimuth of AZIMUTHS) {
    const scene = sceneOf({ azimuth, seed: 11 });
    const drawn = drawnOf(scene);
    const { field } = scene;
    for (let round = 0; round < 400; round += 1) {
      const [x, y] = [AREA.left + scene.random() * AREA.width, AREA.top + scene.random() * AREA.height];
      const last = drawn.findLastIndex((triangle) => sharesIn(triangle, x, y) !== null);
      const found = pointAt(field, x, y);
      if (last < 0) {
        assert.equal(found, null);
        continue;
      }
      const cell = [drawn[last - (last % 2)], drawn[last - (last % 2) + 1]].flat(); // both halves
      const away = [0, 2, 4, 6, 8, 10].map((at) => Math.hypot(cell[at] - x, cell[at + 1] - y));
      const at = field.at(...found);
      assert.ok(Math.abs(Math.hypot(field.lefts[at] - x, field.tops[at] - y) - Math.min(...away)) < 1e-6);
    }
  }
});

test("faces side by side fill every pixel between them once", () => {
  const image = { width: 60, height: 50, data: new Uint8ClampedArray(4 * 60 * 50) };
  const pixels = new Pixels(Uint32Array.of(0xff0000ff));
  const random = numbersFrom(5);
  for (let round = 0; round < 60; round += 1) {
    // Four triangles around a point of a quadrilateral.
    const corners = [
      [3 + 10 * random(), 2 + 10 * random()],
      [45 + 10 * random(), 2 + 10 * random()],
      [45 + 10 * random(), 36 + 10 * random()],
      [3 + 10 * random(), 36 + 10 * random()],
    ];
    const centre = [25 + 6 * random(), 22 + 6 * random()];
    const counts = new Uint8Array(60 * 50);
    for (let side = 0; side < 4; side += 1) {
      pixels.begin(image, 1);
      pixels.triangle(...corners[side], ...centre, ...corners[(side + 1) % 4], 0);
      pixels.data.forEach((value, at) => {
        counts[at] += value ? 1 : 0;
      });
    }
    const triangles = corners.map((corner, side) => [...corner, ...centre, ...corners[(side + 1) % 4]]);
    counts.forEach((count, at) => {
      const [x, y] = [(at % 60) + 0.5, Math.floor(at / 60) + 0.5];
      const isInside = triangles.some((triangle) => sharesIn(triangle, x, y) !== null);
      assert.ok(count <= 1 && (!isInside || count === 1), `${x}, ${y}: ${count}`);
    });
  }
});

test("a veil tints what it covers, and is alone where nothing is", () => {
  const image = { width: 20, height: 20, data: new Uint8ClampedArray(4 * 20 * 20) };
  const pixels = new Pixels(Uint32Array.of(0xff0000ff)); // red
  pixels.begin(image, 1);
  pixels.triangle(0, 0, 0, 20, 20, 20, 0);
  pixels.veil([5, 0, 5, 20, 10, 20, 10, 0], [0, 0, 255], 0.5);
  const at = (x, y) => [...image.data.slice(4 * (20 * y + x), 4 * (20 * y + x) + 4)];
  assert.deepEqual(at(2, 15), [255, 0, 0, 255]);
  const [red, green, blue, alpha] = at(7, 15);
  assert.ok(Math.abs(red - 127) < 3 && green === 0 && Math.abs(blue - 127) < 3 && alpha === 255);
  assert.deepEqual(at(8, 1), [0, 0, 255, 128]);
  assert.deepEqual(at(12, 1), [0, 0, 0, 0]);
});

// --- Colours ---------------------------------------------------------------------------------------------------------

test("a height has its colour of the scale, darker away from the light and brighter in it", () => {
  const scale = [
    [0, "#102030"],
    [1, "rgb(250, 200, 100)"],
  ];
  const table = shadesTable(scale);
  const light = (css) => channels(css).reduce((sum, value) => sum + value, 0);
  for (const height of [0, 100, HEIGHTS - 1]) {
    const share = height / (HEIGHTS - 1);
    const plain = [0, 1, 2].map((at) => [16, 32, 48][at] + share * ([250, 200, 100][at] - [16, 32, 48][at]));
    const shades = Array.from({ length: SHADES }, (_, shade) => cssOf(table[height * SHADES + shade]));
    const darkest = channels(shades[0]);
    for (const at of [0, 1, 2]) assert.ok(Math.abs(darkest[at] / plain[at] - darkest[0] / plain[0]) < 0.05);
    for (let shade = 1; shade < SHADES; shade += 1) assert.ok(light(shades[shade]) >= light(shades[shade - 1]));
    const sum = plain.reduce((one, other) => one + other, 0);
    assert.ok(light(shades[0]) < sum && light(shades.at(-1)) > sum);
  }
});

test("named and written scales, and an unknown one is an error", () => {
  assert.deepEqual(shadesOf(stopsOf("Cividis"))(0), [0, 32, 76]);
  assert.deepEqual(shadesOf(stopsOf())(1), [255, 233, 69]);
  assert.throws(() => stopsOf("Rainbow"), /Rainbow/);
});

// --- Labels and motion -----------------------------------------------------------------------------------------------

test("peaks clearly above the rest are found, one for neighbouring columns, the highest first", () => {
  const random = numbersFrom(8);
  const columns = 20;
  const values = Float32Array.from({ length: 15 * columns }, () => 0.1 + 0.02 * random());
  assert.deepEqual(peaksOf(values, columns), []);
  const plant = (row, column, value) => {
    values[row * columns + column] = value;
  };
  plant(3, 4, 0.9);
  plant(3, 5, 0.8); // on the slope of the first
  plant(12, 5, 0.7); // a peak of nearly the same input
  plant(0, 19, 0.6);
  plant(9, 12, 0.5);
  plant(14, 9, 0.4); // one too many
  const places = peaksOf(values, columns).map(({ row, column }) => [row, column]);
  assert.deepEqual(places, [
    [3, 4],
    [0, 19],
    [9, 12],
  ]);
});

test("values go to their target without a jump, and from where they are to another", () => {
  const morph = new Morph(Float32Array.of(0, 10));
  morph.to.set([1, 20]);
  morph.begin(1000);
  morph.advance(1000);
  assert.deepEqual([...morph.values], [0, 10]);
  morph.advance(1080);
  const [first, second] = morph.values;
  assert.ok(first > 0.4 && first < 1);
  assert.ok(Math.abs((second - 10) / 10 - first) < 1e-6);
  morph.to.set([0, 10]);
  morph.begin(1080);
  morph.advance(1080);
  assert.deepEqual([...morph.values], [first, second]);
  morph.advance(1281);
  assert.deepEqual([...morph.values], [0, 10]);
  assert.equal(morph.isUnderWay, false);
});

// --- The drawing -----------------------------------------------------------------------------------------------------

const LOOK = Object.fromEntries(
  ["ink", "ink2", "ink3", "line", "accent", "drift", "surface", "ground"].map((name, at) => [name, `#0000${at}0`]),
);
const SIZE = { width: 640, height: 400 };
const matrix = (rows, columns, value) => Array.from({ length: rows }, () => new Float32Array(columns).fill(value));

/** A figure with flat surfaces at two heights, or at one. */
function figure(heights, { rows = 5, columns = 8 } = {}) {
  const trace = {
    type: "surface",
    colorscale: "Cividis",
    cmin: 0,
    cmax: 1,
    x: Array.from({ length: columns }, (_, at) => 4 * at),
    y: Array.from({ length: rows }, (_, at) => 2 * at),
    meta: [2 * rows, 4 * columns, "input"],
  };
  const axis = (text) => ({ title: { text } });
  const scene = { xaxis: axis("input channels"), yaxis: axis("output channels"), zaxis: { range: [0, 1] } };
  return {
    data: heights.map((height) => ({ ...trace, z: matrix(rows, columns, height) })),
    layout: { font: { size: 12, family: "sans-serif" }, scene, annotations: [{ text: "λ = 0" }, { text: "λ = 0.1" }] },
  };
}

/** A drawing; its curtain has a way of its own first where that is asked for. */
function drawing(made, { sweeps = false } = {}) {
  const [card, place] = [document.createElement("section"), document.createElement("div")];
  card.append(place);
  document.body.append(card);
  frames = [];
  const surface = new SurfaceDrawing(place, card, "lab-surfaces");
  still.now = !sweeps;
  surface.draw(made, SIZE, LOOK);
  still.now = false;
  return { surface, card, place, slider: card.querySelector("input[type=range]") };
}

/** The colours of faces in a saved picture, with how often each. */
function faces(surface) {
  const text = surface.svgText({ title: "|Ŵ − W|", ground: "#fff", ink: "#000" });
  const counts = new Map();
  for (const [, fill] of text.matchAll(/<path d="[^"]*" fill="(#\w+)"/g)) counts.set(fill, (counts.get(fill) ?? 0) + 1);
  return { text, counts: [...counts.values()].sort((a, b) => a - b) };
}

test("the curtain stands in the middle and parts the smallest λ from the shown one where it is put", () => {
  const { surface, slider } = drawing(figure([0.2, 0.9]));
  assert.deepEqual([slider.min, slider.max, slider.value], ["0", "7", "4"]);
  assert.equal(slider.getAttribute("aria-label"), "Curtain between λ = 0 and λ = 0.1");
  assert.equal(slider.getAttribute("aria-valuetext"), "at inputs 16 to 19");
  assert.deepEqual(faces(surface).counts, [2 * 4 * 3, 2 * 4 * 4]); // triangles right and left of column 4
  slider.value = "1";
  slider.dispatchEvent(new window.Event("input"));
  assert.equal(frames.length, 1);
  frames.shift()(performance.now());
  assert.deepEqual(faces(surface).counts, [2 * 4 * 1, 2 * 4 * 6]);
  for (const [end, name] of [
    ["0", "λ = 0<"],
    ["7", "λ = 0.1<"],
  ]) {
    slider.value = end;
    slider.dispatchEvent(new window.Event("input"));
    frames.shift()(performance.now());
    const { text, counts } = faces(surface);
    assert.deepEqual(counts, [2 * 4 * 7]);
    assert.ok(!text.includes(name), "a part without cells has no name");
  }
});

test("on arrival the curtain goes from all at the smallest λ to the middle, until somebody takes it or moves λ", () => {
  const made = figure([0.2, 0.9]);
  const run = (now) => {
    for (const call of frames.splice(0)) call(now);
  };
  const { surface } = drawing(made, { sweeps: true });
  assert.equal(surface.share, 1);
  const start = performance.now();
  run(start + 100);
  const early = surface.share;
  assert.ok(early < 1 && early > 0.5);
  while (frames.length) run(start + 5000);
  assert.equal(surface.share, 0.5);
  for (const stop of [
    ({ card }) => card.dispatchEvent(new window.Event("pointerdown")),
    (one) => one.surface.draw(figure([0.2, 0.5]), SIZE, LOOK, true),
  ]) {
    const other = drawing(made, { sweeps: true });
    stop(other);
    assert.equal(other.surface.share, 0.5);
    while (frames.length) run(performance.now() + 300);
    assert.equal(other.surface.share, 0.5);
  }
  surface.draw(made, SIZE, LOOK);
  assert.equal(surface.share, 0.5); // once
});

test("the smallest λ is shown on the half of the inputs where it changes most from one to the next", () => {
  for (const [column, before] of [
    [1, 0],
    [6, 1],
  ]) {
    const made = figure([0.2, 0.9]);
    for (const line of made.data[0].z) line[column] = 0.7;
    const { surface } = drawing(made);
    assert.equal(surface.before, before);
    assert.deepEqual([surface.partAt(0), surface.partAt(7)], before ? [1, 0] : [0, 1]);
  }
});

test("a curtain keeps its place among more columns, and a lone λ has none", () => {
  const { surface, slider, card } = drawing(figure([0.2, 0.9]));
  surface.part(7);
  surface.draw(figure([0.2, 0.9], { columns: 15 }), SIZE, LOOK);
  assert.deepEqual([slider.max, slider.value], ["14", "14"]);
  surface.draw(figure([0.5]), SIZE, LOOK);
  assert.equal(card.querySelector(".curtain").hidden, true);
  assert.deepEqual(faces(surface).counts, [2 * 4 * 7]);
});

test("a saved picture has the title and the names of the axes and parts", () => {
  const { text } = faces(drawing(figure([0.2, 0.9])).surface);
  for (const words of ["|Ŵ − W|", "input channels →", "output channels →", "λ = 0<", "λ = 0.1<"])
    assert.ok(text.includes(words), words);
});

test("a step moves heights gradually, at once for people who want no motion; a new figure is there at once", () => {
  const { surface } = drawing(figure([0.2, 0.9]));
  const shown = () => surface.fields[1].values[0];
  surface.draw(figure([0.2, 0.5]), SIZE, LOOK, true);
  assert.ok(Math.abs(shown() - 0.9) < 1e-6);
  const start = surface.morph.start;
  frames.shift()(start + 60);
  assert.ok(shown() < 0.9 && shown() > 0.5);
  frames.shift()(start + 1000);
  assert.ok(Math.abs(shown() - 0.5) < 1e-6);
  assert.equal(frames.length, 0);
  still.now = true;
  surface.draw(figure([0.2, 0.7]), SIZE, LOOK, true);
  still.now = false;
  assert.ok(Math.abs(shown() - 0.7) < 1e-6);
  surface.draw(figure([0.2, 0.1]), SIZE, LOOK);
  assert.ok(Math.abs(shown() - 0.1) < 1e-6);
});

test("a drag turns, a click does not; the camera stays for another figure and turns back", () => {
  const { surface, place } = drawing(figure([0.2, 0.9]));
  const press = (target, type, clientX, clientY, more = {}) =>
    target.dispatchEvent(new window.MouseEvent(type, { clientX, clientY, bubbles: true, button: 0, ...more }));
  const clicks = [];
  surface.clicked = (points) => clicks.push(points.length);
  press(place, "pointerdown", 300, 200);
  press(window, "pointermove", 340, 210);
  press(window, "pointerup", 340, 210);
  press(place, "click", 340, 210);
  assert.deepEqual(clicks, []);
  const { camera } = surface;
  assert.notEqual(camera.azimuth, FIRST.azimuth);
  surface.draw(figure([0.3, 0.6], { columns: 12 }), SIZE, LOOK);
  assert.equal(surface.camera, camera);
  press(place, "dblclick", 340, 210);
  assert.deepEqual(surface.camera, { ...FIRST });
  frames.splice(0).forEach((frame) => {
    frame(performance.now());
  });
  const { left, top } = surface.spotOf([2, 3]);
  press(place, "pointerdown", left, top);
  press(window, "pointerup", left, top);
  press(place, "click", left, top - 0.5);
  assert.deepEqual(clicks, [1]);
  assert.deepEqual(surface.cellAt(left, top - 0.5), [2, 3]);
});

test("the wheel zooms with Ctrl alone, and keys turn where a cell has the focus", () => {
  const { surface, card, place } = drawing(figure([0.2, 0.9]));
  const wheel = (more) => {
    const event = new window.WheelEvent("wheel", { deltaY: -200, bubbles: true, cancelable: true, ...more });
    place.dispatchEvent(event);
    return event.defaultPrevented;
  };
  assert.equal(wheel({}), false);
  assert.equal(surface.camera.zoom, 1);
  assert.equal(wheel({ ctrlKey: true }), true);
  assert.ok(surface.camera.zoom > 1);
  const cells = document.createElement("div");
  cells.className = "cells";
  card.append(cells);
  const key = (name, more = {}) =>
    cells.dispatchEvent(new window.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...more }));
  key("ArrowRight", { shiftKey: true });
  assert.ok(surface.camera.azimuth < FIRST.azimuth);
  key("Home");
  assert.deepEqual(surface.camera, { ...FIRST });
  assert.equal(key("ArrowRight"), true); // left to the cells
});
