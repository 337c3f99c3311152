// Prints the messages of scripts as JSON: a list of [file, message or [one, other]].
//
//     node docs/extract_messages.mjs FILE…
import { readFileSync } from "node:fs";
import { parse } from "acorn";
import { simple } from "acorn-walk";

const FUNCTIONS = { tr: 1, trParts: 1, trCount: 2, stored: 1 }; // arguments that are messages
const messages = [];

for (const file of process.argv.slice(2)) {
  const tree = parse(readFileSync(file, "utf8"), { ecmaVersion: "latest", sourceType: "module" });
  simple(tree, {
    CallExpression({ callee, arguments: given }) {
      const texts = given.slice(0, FUNCTIONS[callee.name] ?? 0).map(textOf);
      if (texts.length && !texts.includes(null)) messages.push([file, texts.length === 1 ? texts[0] : texts]);
    },
  });
}
console.log(JSON.stringify(messages));

/** The text of a literal, or of literals joined; null for anything else. */
function textOf(node) {
  if (node.type === "Literal" && typeof node.value === "string") return node.value;
  if (node.type === "TemplateLiteral" && !node.expressions.length) return node.quasis[0].value.cooked;
  if (node.type !== "BinaryExpression" || node.operator !== "+") return null;
  const parts = [textOf(node.left), textOf(node.right)];
  return parts.includes(null) ? null : parts.join("");
}
