import assert from "node:assert/strict";
import { test } from "node:test";
import { spread, ticks } from "../../assets/js/learn/chart.js";
import { largest, readPicks } from "../../assets/js/learn/channels.js";
import { wayOf } from "../../assets/js/learn/keys.js";
import { contour, readTokens, start } from "../../assets/js/learn/lattice.js";
import { normals } from "../../assets/js/learn/random.js";
import { bestOf, column } from "../../assets/js/learn/study.js";
import { LAMS, SIZES, errorsOf, toyLayer } from "../../assets/js/learn/tokens.js";
import { everyPair, roundEven, statisticsOf, winners } from "../../assets/js/toy.js";

const key = (name, inside = "", more = {}) => ({ key: name, target: { closest: (selector) => selector.includes(inside) && inside !== "" }, ...more });

test("space and arrows move between steps unless what has the focus needs them", () => {
  assert.equal(wayOf(key("ArrowRight")), 1);
  assert.equal(wayOf(key("ArrowLeft")), -1);
  assert.equal(wayOf(key(" ")), 1);
  assert.equal(wayOf(key(" ", "", { shiftKey: true })), -1);
  assert.equal(wayOf(key("a")), 0);
  for (const owner of ["input", "select", "[role=slider]"]) assert.equal(wayOf(key("ArrowRight", owner)), 0);
  assert.equal(wayOf(key(" ", "button")), 0);
  assert.equal(wayOf(key("ArrowRight", "button")), 1);
  assert.equal(wayOf(key("ArrowRight", "", { altKey: true })), 0);
  assert.equal(wayOf(key("ArrowRight", "", { defaultPrevented: true })), 0);
});

test("half goes to the even number, as in Python", () => {
  assert.deepEqual([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, -2.6].map((value) => roundEven(value) + 0), [0, 2, 2, 0, -2, -2, 2, -3]);
});

test("every point of an ellipse has the error that it stands for", () => {
  const { gram } = statisticsOf(readTokens(start.tokens));
  const centre = [0.3, -0.7];
  for (const [x, y] of contour(gram, centre, 0.42)) {
    const [u, v] = [x - centre[0], y - centre[1]];
    const error = readTokens(start.tokens).reduce((total, token) => total + (u * token[0] + v * token[1]) ** 2, 0);
    assert.ok(Math.abs(error - 0.42) < 1e-9);
  }
});

test("as λ grows the winner drifts less and errs more, and the tour starts with three jumps", () => {
  const grid = { bits: 3, groupSize: null, kind: "asymmetric" };
  const route = winners(everyPair([start.x, start.y], statisticsOf(readTokens(start.tokens)).gram, { scale: 1, zeroPoint: 4 }, grid));
  assert.equal(route.length, 4);
  for (let i = 1; i < route.length; i += 1) {
    assert.ok(route[i].from > route[i - 1].from);
    assert.ok(route[i].candidate.sar < route[i - 1].candidate.sar);
    assert.ok(route[i].candidate.recon > route[i - 1].candidate.recon);
  }
});

test("an address that makes no sense gives the tokens and channels of the start", () => {
  assert.deepEqual(readTokens("1,2;3"), readTokens(start.tokens));
  assert.deepEqual(readTokens("0.5,1;9,0;0,0"), readTokens(start.tokens));
  assert.deepEqual(readTokens("0.5,1;-1,0;0,0.25"), [[0.5, 1], [-1, 0], [0, 0.25]]);
  assert.deepEqual(readPicks("2,2,6,99,x,11,12"), [1, 5, 10]);
  assert.deepEqual(readPicks(undefined), []);
  assert.deepEqual(largest([3, 1, 9, 4], 2), [2, 3]);
});

test("a seed repeats its draw, and another does not", () => {
  const draws = [normals(5), normals(5), normals(6)].map((draw) => Array.from({ length: 2000 }, draw));
  assert.deepEqual(draws[0], draws[1]);
  assert.notDeepEqual(draws[0], draws[2]);
  const mean = draws[0].reduce((a, b) => a + b, 0) / 2000;
  const variance = draws[0].reduce((a, b) => a + (b - mean) ** 2, 0) / 2000;
  assert.ok(Math.abs(mean) < 0.08 && Math.abs(variance - 1) < 0.12);
});

test("few tokens mislead more than many, and λ helps them more: what step 3 says of itself", () => {
  const layer = toyLayer();
  const at = (tokens) => {
    const draws = Array.from({ length: 12 }, (_, i) => errorsOf(layer, tokens, i + 1));
    const mean = (which) => LAMS.map((_, k) => draws.reduce((total, draw) => total + draw[which][k] / draws.length, 0));
    return { seen: mean("seen"), unseen: mean("unseen") };
  };
  const [few, , many] = SIZES.map(at);
  assert.ok(few.unseen[0] / few.seen[0] > 2 * (many.unseen[0] / many.seen[0]));
  assert.ok(few.unseen.at(-1) < few.unseen[0]);
  assert.ok(many.unseen.at(-1) > many.unseen[0]);
  assert.deepEqual(errorsOf(layer, 8, 3), errorsOf(layer, 8, 3));
});

test("columns of a view and the best of them, holes left out", () => {
  const view = { lams: [0, 0.1, 1], table: { rows: [{ at: [0, 2], recon: 4 }, { at: [0, 0], recon: 3 }, { at: [1, 1], recon: 1 }] } };
  assert.deepEqual(column(view, "recon"), [3, null, 4]);
  assert.deepEqual(column(view, "recon", 1), [null, 1, null]);
  assert.equal(bestOf([3, null, 2, 4]), 2);
  assert.equal(bestOf([3, null, 2, 4], -1), 3);
  assert.equal(bestOf([null]), -1);
});

test("ticks are round numbers within the range", () => {
  assert.deepEqual(ticks([0, 1]), [0, 0.5, 1]);
  assert.deepEqual(ticks([76.5, 82.4]), [78, 80, 82]);
  assert.deepEqual(spread([1, null, 3], { zero: true, air: 0 }), [0, 3]);
});
