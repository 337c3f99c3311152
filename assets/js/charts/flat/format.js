/**
 * Numbers in the part of d3's format language that the figures use, and the texts that points say in a hover.
 * @module flat/format
 */

const MINUS = "−";
const SPEC = /^(\+?)(,?)(?:\.(\d+))?(~?)([fr%]?)$/;
const FIELD = /%\{(\w+)(?:\[(\d+)\])?(?::([^}]*))?\}/g;
const EXTRA = /<extra>(.*?)<\/extra>/s;
const SHORTEST = 12; // digits of a number without a type, as in d3
const HOVER_DIGITS = 7; // of a number without a format, as in plotly

/**
 * A number as a format writes it, e.g. “.1f”, “,.0%” or “+.3r”.
 * @param {string} spec
 * @param {number} value
 */
export function formatNumber(spec, value) {
  const [whole, plus, comma, places, tilde, type] = SPEC.exec(spec) ?? [];
  if (whole === undefined) throw new Error(`no number format “${spec}”`);
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(type === "%" ? 100 * value : value);
  const precision = places === undefined ? (type ? 6 : SHORTEST) : Number(places);
  let digits = type === "f" || type === "%" ? size.toFixed(precision) : rounded(size, precision);
  if (tilde || !type) digits = trimmed(digits);
  const sign = value < 0 && Number(digits) ? MINUS : plus;
  const number = `${sign}${comma ? grouped(digits) : digits}`;
  return type === "%" ? `${number}%` : number;
}

/**
 * A number rounded to significant digits, without an exponent.
 * @param {number} size not negative
 * @param {number} digits
 */
function rounded(size, digits) {
  const [, exponent] = size.toExponential(Math.max(0, digits - 1)).split("e");
  const places = Math.max(0, digits - 1 - Number(exponent));
  return Number(size.toPrecision(Math.max(1, digits))).toFixed(Math.min(places, 100));
}

/** Digits without zeros at the end of the decimals. @param {string} digits */
export const trimmed = (digits) => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits);

/** Digits with a comma between thousands. @param {string} digits */
function grouped(digits) {
  const [whole, decimals] = digits.split(".");
  const thousands = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return decimals === undefined ? thousands : `${thousands}.${decimals}`;
}

/**
 * A value as a hover says it without a format.
 * @param {unknown} value
 */
export function plain(value) {
  if (typeof value !== "number") return String(value ?? "");
  return String(Number(value.toPrecision(HOVER_DIGITS))).replace("-", MINUS);
}

/** A value by a format, where it is a number and there is one. @param {unknown} value @param {string} [spec] */
export const written = (value, spec) => (spec && typeof value === "number" ? formatNumber(spec, value) : plain(value));

/**
 * The text of a hover template and what stands beside it; `extra` is null where the template says nothing of it.
 * @param {string} template
 * @param {Record<string, unknown>} values by name
 * @param {Record<string, string>} [words] values as they are written without a format, where not plain
 */
export function hoverWords(template, values, words = {}) {
  const fill = (/** @type {string} */ part) =>
    part.replace(FIELD, (_, name, index, spec) => {
      const value = index === undefined ? values[name] : /** @type {any} */ (values[name])?.[index];
      if (spec && typeof value === "number") return formatNumber(spec, value);
      return index === undefined && name in words ? words[name] : plain(value);
    });
  const extra = EXTRA.exec(template);
  return { text: fill(template.replace(EXTRA, "")), extra: extra ? fill(extra[1]) : null };
}
