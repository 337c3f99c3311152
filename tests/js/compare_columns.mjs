// Goes through the rows of a file column by column with assets/js/learn/solver.js, and turns the tokens of the file as Learn
// does, and prints what it finds.
import { readFileSync } from "node:fs";
import { facts, start } from "../../assets/js/learn/new_text.js";
import {
  columnByColumn,
  driftWeights,
  factorise,
  regularisedGram,
  statisticsOf,
} from "../../assets/js/learn/solver.js";

const { rows, angles } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const ways = rows.map(({ row, inputs, bits, lam }) => {
  const { gram } = statisticsOf(inputs);
  const { unitUpper } = factorise(regularisedGram(gram, driftWeights(gram), lam));
  return columnByColumn(row, unitUpper, { bits, groupSize: null, kind: "asymmetric" });
});
const turns = angles.map((angle) => {
  const { weight, tokens, dots, gram } = facts({ ...start, angle, shown: 1 });
  return {
    angle,
    weight,
    tokens,
    gram,
    dots: dots.map(({ levels, recon, fresh, distance }) => ({ levels, recon, fresh, distance })),
  };
});
process.stdout.write(JSON.stringify({ ways, turns }));
