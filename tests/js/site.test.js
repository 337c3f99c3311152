import assert from "node:assert/strict";
import { test } from "node:test";

import { at, rootOf } from "../../assets/js/base/site.js";

test("where the site begins is told by the address of its scripts", () => {
  const host = "https://demo.example";
  assert.equal(rootOf(`${host}/assets/v-0123456789ab/js/base/site.js`), "");
  assert.equal(rootOf(`${host}/assets/js/base/site.js`), "");
  assert.equal(rootOf(`${host}/tools/sarqc/assets/v-0123456789ab/js/base/site.js`), "/tools/sarqc");
  assert.equal(rootOf(import.meta.url), "");
  assert.equal(at("/runs?filter=x"), "/runs?filter=x");
});
