/**
 * Numbers for people. The same rules as sarqc/figures/sentence.py, so that one number looks alike everywhere; the golden file
 * tests/golden/format.json is read by both sides' tests.
 * @module format
 */

/** Where a study that no run of this host owns comes from. */
export const ORIGINS = { command_line: "command line", uploaded: "opened from a file" };

const MINUS = "\u2212";
const NBSP = "\u00a0";

/**
 * Fixed decimals, thousands in groups, a true minus sign, never “−0”.
 * @param {number | string} value
 * @param {number} decimals
 */
export function number(value, decimals) {
  let text = Number(value).toFixed(decimals);
  if (Number(text) === 0) text = text.replace("-", "");
  const [whole, part] = text.split(".");
  return [grouped(whole), ...(part ? [part] : [])].join(".").replace("-", MINUS);
}

/**
 * A difference in words, with its sign.
 * @param {string} text such as `number` makes it
 */
export const signed = (text) => (text.startsWith(MINUS) ? text : `+${text}`);

/**
 * λ and γ as the axis writes them: the shortest form, like Python's “g”; a word (“auto”) as it is.
 * @param {number | string} value
 */
export function plain(value) {
  if (typeof value === "string") return value;
  return String(Number(Number(value).toPrecision(6))).replace("-", MINUS);
}

/**
 * A value of any size with three digits that mean something: 0.870, 1.05, 0.000123, 1.00·10^−9.
 * @param {number} value
 */
export function significant(value) {
  if (value && Math.abs(value) < 1e-6)
    return Number(value).toExponential(2).replaceAll("-", MINUS).replace("e", "·10^");
  return number(value, decimalsOf(value, 3));
}

/**
 * Decimals that show a value with so many significant digits; nothing is rounded above the decimal point.
 * @param {number} value
 * @param {number} digits
 */
function decimalsOf(value, digits) {
  const power = Number(
    Number(value)
      .toExponential(digits - 1)
      .split("e")[1] ?? 0,
  );
  return Math.min(12, Math.max(0, digits - 1 - power));
}

/**
 * Decimals that leave a perplexity about three digits.
 * @param {number} value
 */
export function decimalsFor(value) {
  const size = Math.abs(value);
  return size < 10 ? 2 : size < 1000 ? 1 : 0;
}

/**
 * A share as per cent.
 * @param {number} value
 * @param {number} [decimals]
 */
export function percent(value, decimals = 0) {
  return `${number(100 * value, decimals)}${NBSP}%`;
}

/**
 * A relative change in words: “12 % less”; `same` is said of what is less than half a per cent.
 * @param {number} share
 * @param {string} [same]
 */
export function change(share, same = "the same") {
  if (Math.abs(share) < 0.005) return same;
  const size = percent(Math.abs(share));
  return share < 0 ? `${size} less` : `${size} more`;
}

/**
 * An amount with its noun: “1 run”, “2 passes”.
 * @param {number} amount
 * @param {string} noun
 * @param {number | string} [words] the amount as it is written
 */
export const counted = (amount, noun, words = amount) =>
  amount === 1 ? `${words} ${noun}` : `${words} ${noun}${noun.endsWith("s") ? "es" : "s"}`;

/** @param {string} digits of a whole number */
const grouped = (digits) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/**
 * Thousands in groups: 6,291,456.
 * @param {number} value
 */
export const count = (value) => grouped(Math.round(value).toString());

/**
 * Bytes in binary units.
 * @param {number | null | undefined} value
 */
export function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${number(size, unit === 0 || size >= 100 ? 0 : 1)}${NBSP}${units[unit]}`;
}

/**
 * Seconds as people say them: “8 s”, “3 min 20 s”, “2 h 5 min”.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "unknown";
  if (seconds < 10) return `${number(seconds, 1)}${NBSP}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}${NBSP}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes}${NBSP}min ${whole % 60}${NBSP}s` : `${minutes}${NBSP}min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)}${NBSP}h ${minutes % 60}${NBSP}min` : `${minutes / 60}${NBSP}h`;
}

/**
 * A time of day today, a date otherwise.
 * @param {string | number | null | undefined} value seconds since 1970, or a date as text
 * @param {Date} [now]
 */
export function when(value, now = new Date()) {
  if (!value) return "";
  const date = typeof value === "number" ? new Date(value * 1000) : new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const isToday = date.toDateString() === now.toDateString();
  /** @param {number} part */
  const two = (part) => String(part).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (isToday) return time;
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

/** @type {Record<string, (value: any) => string>} */
const KINDS = {
  plain,
  perplexity: (value) => number(value, decimalsFor(value)),
  difference: (value) => number(value, Math.max(2, decimalsOf(value, 2))),
  change: (value) => signed(percent(value, Math.max(1, Math.min(4, decimalsOf(100 * value, 2))))),
  share: (value) => percent(value, 1),
  points: (value) => number(100 * value, 1),
  significant,
  flag: (value) => (value ? "yes" : "no"),
  text: (value) => String(value),
};

/**
 * A value of a table as text; what was not measured is a dash.
 * @param {any} value
 * @param {string} kind one of perplexity, difference, change, share, points, significant, flag, plain, text
 */
export function format(value, kind) {
  if (value === null || value === undefined) return "–";
  return (KINDS[kind] ?? KINDS.text)(value);
}

/**
 * Rows as CSV (RFC 4180) with full precision.
 * @param {{key: string}[]} columns
 * @param {Record<string, unknown>[]} rows
 * @param {Record<string, unknown>} [about] further columns before these, with one value each
 */
export function csv(columns, rows, about = {}) {
  /** @param {unknown} value */
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const keys = [...new Set([...Object.keys(about), ...columns.map(({ key }) => key)])];
  const lines = [keys.map(cell)];
  for (const row of rows) lines.push(keys.map((key) => cell(key in row ? row[key] : about[key])));
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}
