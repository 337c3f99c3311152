/**
 * A drawing as an SVG document of its own, and a document as a picture to save.
 * @module svg_picture
 */

import { s } from "./svg.js";

const XML = "http://www.w3.org/XML/1998/namespace";
const TITLE = { room: 30, left: 12, baseline: 22, size: 14, line: 18 }; // pixels above a saved picture
const FOOT = { size: 11, letter: 6, line: 15, room: 8 }; // pixels below it

/**
 * The text of a document with a drawing, which is changed.
 * @param {SVGSVGElement} svg with its width and height in pixels
 * @param {{title?: string, foot?: string, ground?: string, ink: string}} look the lines of a title above the drawing, what
 *   stands below it, the ground of both, and their colour
 */
export function titledDocument(svg, { title = "", foot = "", ground = "none", ink }) {
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const lines = title ? title.split("\n") : [];
  const room = lines.length ? TITLE.room + TITLE.line * (lines.length - 1) : 0;
  const below = foot ? wrapped(foot, (width - 2 * TITLE.left) / FOOT.letter) : [];
  const whole = height + room + (below.length && FOOT.room + FOOT.line * below.length);
  const look = { x: TITLE.left, "font-size": TITLE.size, fill: ink };
  svg.setAttributeNS(XML, "xml:space", "preserve"); // spaces keep words apart
  svg.removeAttribute("style");
  svg.setAttribute("height", String(whole));
  svg.setAttribute("viewBox", `0 0 ${width} ${whole}`);
  svg.replaceChildren(
    s("rect", { width, height: whole, fill: ground }),
    ...lines.map((line, at) => s("text", { ...look, y: TITLE.baseline + at * TITLE.line }, line)),
    ...below.map((line, at) =>
      s("text", { ...look, "font-size": FOOT.size, y: height + room + FOOT.line * (at + 1) }, line),
    ),
    s("g", { transform: room ? `translate(0 ${room})` : null }, [...svg.childNodes]),
  );
  return new XMLSerializer().serializeToString(svg);
}

/** Words in lines of so many letters. @param {string} text @param {number} letters @returns {string[]} */
function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines[lines.length - 1]} ${word}`.trim();
    if (longer.length > letters) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

const address = (/** @type {string} */ text) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;

/**
 * The address of a picture, for a link to save.
 * @param {"png"|"svg"} kind
 * @param {string} text of the document
 * @param {number} scale pixels of a PNG for each of the document
 * @returns {Promise<string>}
 */
export async function svgPicture(kind, text, scale) {
  if (kind === "svg") return address(text);
  const image = new Image();
  image.src = address(text);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.round(scale * image.width), height: Math.round(scale * image.height) });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}
