/** Every script can be imported without a page: modules define, and touch the document only when they are called. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";

const FOLDER = new URL("../../assets/js/", import.meta.url);
const scripts = readdirSync(FOLDER, { recursive: true })
  .filter((name) => name.endsWith(".js"))
  .sort();

test("there are scripts to import", () => assert.ok(scripts.length > 40, `${scripts.length} scripts`));

for (const name of scripts)
  test(`${name} is imported`, async () => {
    const module = await import(new URL(name.replaceAll("\\", "/"), FOLDER).href);
    assert.ok(Object.keys(module).length, "it exports nothing");
  });
