/** The weight of a linear as the browser decodes it, for a test; arguments as for run_model.mjs. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tensorsOf } from "../../assets/js/model/container.js";
import { NAMES, sizesOf } from "../../assets/js/model/llama.js";
import { emptyLinears, readCodes } from "../../assets/js/model/weights.js";

const [folder, codes, cases, output] = process.argv.slice(2);
const { bits, file, name } = JSON.parse(readFileSync(cases, "utf8"));
const sizes = sizesOf(JSON.parse(readFileSync(join(folder, "config.json"), "utf8")));
const bytes = readFileSync(join(codes, file));
const tensors = tensorsOf(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength), file);
const blocks = emptyLinears(sizes, (count) => new Float32Array(count));
readCodes(tensors, sizes, bits, blocks);
const [, , block, ...path] = name.split(".");
const [kind] = Object.entries(NAMES).find(([, own]) => own === path.join(".")) ?? [];
writeFileSync(output, Buffer.from(blocks[block][kind].buffer));
