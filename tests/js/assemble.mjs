/** The kernel's module of WebAssembly from its text: `--write` puts it into kernel.js, without it the module's text is printed. */
import { readFileSync, writeFileSync } from "node:fs";
import wabt from "wabt";

const FOLDER = new URL("../../assets/js/model/", import.meta.url);

/** kernel.js as it has to be. */
export async function assembled() {
  const { parseWat } = await wabt();
  const module = parseWat("kernel.wat", readFileSync(new URL("kernel.wat", FOLDER), "utf8"), { simd: true });
  const { buffer } = module.toBinary({});
  return `/**
 * The kernel as a module of WebAssembly, in base64: kernel.wat assembled by tests/js/assemble.mjs.
 * @module model/kernel
 */

export const KERNEL =
  "${Buffer.from(buffer).toString("base64")}";
`;
}

if (process.argv.includes("--write")) writeFileSync(new URL("kernel.js", FOLDER), await assembled());
