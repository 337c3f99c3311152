/** Prints stored sentences, JSON in standard input, as a German page shows them. */
import { readFileSync } from "node:fs";
import "./german.mjs";

const { storedWords } = await import("../../assets/js/calibrate/stored_words.js");
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(storedWords)));
