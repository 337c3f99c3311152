/**
 * Logits of the browser's model for a test: arguments are a folder of files and a list of cases (JSON: tokens, codes, bits,
 * whether without WebAssembly). The logits of all cases go to the file named last, as single precision.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { nothingRead } from "../../assets/js/model/llama.js";
import { MOST_TOKENS } from "../../assets/js/model/predictions.js";
import { Session } from "../../assets/js/model/session.js";

const [folder, codes, cases, output] = process.argv.slice(2);

/** @param {string} name */
const fetched = async (name) => {
  const bytes = readFileSync(join(name.includes("lambda") ? codes : folder, name));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};

const parts = [];
for (const { inScript, bits, file, texts, split } of JSON.parse(readFileSync(cases, "utf8"))) {
  const session = await Session.open(fetched, { inScript });
  if (session.arithmetic.isFast === inScript) throw new Error("not the arithmetic that was asked for");
  if (file) await session.load({ shown: file, zero: file, bits });
  const { model } = file ? session.shown : session.float;
  for (const tokens of texts) {
    const past = nothingRead(model.sizes, MOST_TOKENS);
    if (split) {
      // In two parts: the second goes on from the kept keys and values.
      parts.push(model.read(tokens.slice(0, split), past).slice());
      parts.push(model.read(tokens.slice(split), past).slice());
    } else parts.push(model.read(tokens, past).slice());
  }
}
writeFileSync(output, Buffer.concat(parts.map((part) => Buffer.from(part.buffer))));
