// Answers of a published site, as the pages join them from its files: a line of JSON for each path on stdin.
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { Published } from "../../../assets/js/base/published.js";

const [folder] = process.argv.slice(2);
const text = await readFile(`${folder}/index.html`, "utf8");
const [, data] = text.split('<script type="application/json" id="published">');
const site = new Published(JSON.parse(data.split("</script>")[0]), async (address) => {
  const bytes = await readFile(`${folder}/${address}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
});

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if (asked.array) {
    const bytes = new Uint8Array(await site.bytes(asked.study, asked.array));
    process.stdout.write(`${JSON.stringify(Buffer.from(bytes).toString("base64"))}\n`);
    continue;
  }
  const held = asked.path.includes("/view") ? site.holds(asked.path) : null;
  process.stdout.write(`${JSON.stringify({ answer: (await site.answer(asked.path)) ?? null, held })}\n`);
}
