/**
 * An SVG document as a picture to save.
 * @module svg_picture
 */

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
