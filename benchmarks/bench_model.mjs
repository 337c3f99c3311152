/** Milliseconds of passes of the model in the page, as JSON; the argument is the folder of the float model. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { nothingRead } from "../assets/js/model/llama.js";
import { MOST_TOKENS } from "../assets/js/model/predictions.js";
import { Session } from "../assets/js/model/session.js";

const [folder] = process.argv.slice(2);
const fetched = async (/** @type {string} */ name) => {
  const bytes = readFileSync(join(folder, name));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};

/** @param {number} times @param {() => void} act */
function timed(times, act) {
  const taken = Array.from({ length: times }, () => {
    const start = performance.now();
    act();
    return performance.now() - start;
  }).sort((a, b) => a - b);
  return { median: taken[times >> 1], high: taken[Math.ceil(0.95 * times) - 1] };
}

/** @type {Record<string, {median: number, high: number}>} */
const found = {};
for (const inScript of [false, true]) {
  const session = await Session.open(fetched, { inScript });
  const { model } = session.float;
  const { tokens } = session.tokensOf(session.text);
  if (tokens.length !== MOST_TOKENS) throw new Error("the text is too short");
  const pass = () => model.read(tokens, nothingRead(model.sizes, MOST_TOKENS));
  pass(); // compiled now
  found[inScript ? "plain" : "kernel"] = timed(inScript ? 10 : 40, pass);
  if (inScript) continue;
  const past = nothingRead(model.sizes, MOST_TOKENS + 1);
  model.read(tokens, past);
  found.step = timed(40, () => {
    past.length = MOST_TOKENS;
    model.read([tokens[0]], past);
  });
}
console.log(JSON.stringify(found));
