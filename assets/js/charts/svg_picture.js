/**
 * A drawing as an SVG document of its own, and a document as a picture to save.
 * @module svg_picture
 */

import { s } from "./svg.js";

const XML = "http://www.w3.org/XML/1998/namespace";
const TITLE = { room: 30, left: 12, baseline: 22, size: 14, line: 18 }; // pixels above a saved picture

/**
 * The text of a document with a drawing, which is changed.
 * @param {SVGSVGElement} svg with its width and height in pixels
 * @param {{title?: string, ground?: string, ink: string}} look the lines of a title above the drawing, what that stands
 *   on, and the colour of the title
 */
export function titledDocument(svg, { title = "", ground = "none", ink }) {
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const lines = title ? title.split("\n") : [];
  const room = lines.length ? TITLE.room + TITLE.line * (lines.length - 1) : 0;
  const look = { x: TITLE.left, "font-size": TITLE.size, fill: ink };
  svg.setAttributeNS(XML, "xml:space", "preserve"); // spaces keep words apart
  svg.removeAttribute("style");
  svg.setAttribute("height", String(height + room));
  svg.setAttribute("viewBox", `0 0 ${width} ${height + room}`);
  svg.replaceChildren(
    s("rect", { width, height: height + room, fill: ground }),
    ...lines.map((line, at) => s("text", { ...look, y: TITLE.baseline + at * TITLE.line }, line)),
    s("g", { transform: room ? `translate(0 ${room})` : null }, [...svg.childNodes]),
  );
  return new XMLSerializer().serializeToString(svg);
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
