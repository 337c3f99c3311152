/**
 * Makes a German page of this process: the language of the scripts that are loaded after it is that of a document with the
 * messages of sarqc/languages/de.po, as sarqc/language.py writes them.
 */
import { readFileSync } from "node:fs";

/** What a quoted line of a catalogue says. @param {string} entry @param {string} keyword */
function textOf(entry, keyword) {
  const line = entry.split("\n").find((one) => one.startsWith(`${keyword} "`));
  return line && JSON.parse(line.slice(keyword.length + 1));
}

const po = readFileSync(new URL("../../sarqc/languages/de.po", import.meta.url), "utf8");
const messages = {};
const plurals = {};
for (const entry of po.split("\n\n").slice(1)) {
  const id = textOf(entry, "msgid");
  if (entry.includes("msgid_plural")) plurals[id] = ["msgstr[0]", "msgstr[1]"].map((form) => textOf(entry, form));
  else messages[id] = textOf(entry, "msgstr");
}

const element = { lang: "de", textContent: JSON.stringify({ messages, plurals, categories: ["one", "other"] }) };
globalThis.document = {
  documentElement: {},
  querySelector: (selector) => (selector === "#messages" ? element : null),
};
await import("../../assets/js/base/messages.js");
delete globalThis.document; // no page beside its language
