// Solves the layers of a file again with assets/js/learn/solver.js and prints how far the answers lie from those in the file.
import { readFileSync } from "node:fs";
import { everyPair, quantizeLayer, statisticsOf, winners } from "../../assets/js/learn/solver.js";

const { layers, pairs } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const found = {
  layers: layers.length,
  codes_that_differ: 0,
  zero_points_that_differ: 0,
  floors_that_differ: 0,
  levels: 0,
  scales: 0,
  losses: 0,
  nearest_to_a_tie: 1,
  pairs_that_differ: 0,
  winners: [],
};
const largest = (a, b, measure) => Math.max(...a.flat().map((value, i) => measure(value, b.flat()[i])));
const apart = (a, b) => Math.abs(a - b);
const relative = (a, b) => (a === b ? 0 : Math.abs(a - b) / Math.max(Math.abs(a), Math.abs(b)));
/** The candidate with the smallest recon + λ · sar, found by looking at each; of equal ones the first. */
const bestAt = (candidates, lam) =>
  candidates.reduce((best, one) => (one.recon + lam * one.sar < best.recon + lam * best.sar ? one : best));
const differing = (a, b) => a.flat().filter((value, i) => value !== b.flat()[i]).length;

for (const one of layers) {
  const grid = { bits: one.bits, groupSize: one.groupSize, kind: one.kind };
  const solved = quantizeLayer(one.weight, statisticsOf(one.inputs), grid, one);
  const { answer } = one;
  if (solved.codes.flat().length !== answer.codes.flat().length) throw new Error("a layer has lost its shape");
  found.codes_that_differ += differing(solved.codes, answer.codes);
  found.zero_points_that_differ += differing(solved.zeroPoints, answer.zeroPoints);
  found.levels = Math.max(found.levels, largest(solved.dequantized, answer.dequantized, apart));
  found.scales = Math.max(found.scales, largest(solved.scales, answer.scales, relative));
  found.losses = Math.max(
    found.losses,
    relative(solved.reconLoss, answer.reconLoss),
    relative(solved.sarLoss, answer.sarLoss),
  );
  found.floors_that_differ += relative(solved.diagonalFloor, answer.diagonalFloor) > 1e-9;
  const size = one.groupSize ?? one.weight[0].length;
  solved.values.forEach((row, o) =>
    row.forEach((value, i) => {
      const place = Math.abs(value / solved.scales[o][Math.floor(i / size)]);
      found.nearest_to_a_tie = Math.min(found.nearest_to_a_tie, Math.abs(place - Math.floor(place) - 0.5));
    }),
  );
}

const grid = { bits: 3, groupSize: null, kind: "asymmetric" };
for (const one of pairs) {
  const candidates = everyPair(one.weight, statisticsOf(one.inputs).gram, { scale: 1, zeroPoint: 4 }, grid);
  const best = bestAt(candidates, one.lam);
  const cost = best.recon + one.lam * best.sar;
  if (differing(best.codes, one.codes) || relative(cost, one.cost) > 1e-9) found.pairs_that_differ += 1;
  // The path of winners must name, between two of its jumps, the winner that a search at that λ finds.
  const path = winners(candidates);
  path.forEach(({ from, candidate }, i) => {
    const until = path[i + 1]?.from ?? from * 2 + 1;
    const middle = (from + until) / 2;
    const again = bestAt(candidates, middle);
    const same = relative(again.recon + middle * again.sar, candidate.recon + middle * candidate.sar) < 1e-9;
    if (!same || until < from) found.winners.push([one.weight, middle]);
  });
}
process.stdout.write(JSON.stringify(found));
