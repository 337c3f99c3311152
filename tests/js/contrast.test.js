/** Lines that carry meaning stand out at 3 : 1 from their card, and text in their colours at 4.5 : 1, in both themes. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(new URL("../../assets/css/base.css", import.meta.url), "utf8");
const [light, dark] = css.split(':root[data-theme="dark"]');

/** The colours that a theme names, as #rrggbb. @param {string} part of the styles */
const colours = (part) =>
  Object.fromEntries(
    [...part.split("}")[0].matchAll(/--([\w-]+): (#\w{6});/g)].map(([, name, value]) => [name, value]),
  );

/** Relative luminance, as WCAG 2 defines it. @param {string} colour */
function luminance(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** @param {string} one @param {string} other */
function contrast(one, other) {
  const [more, less] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (more + 0.05) / (less + 0.05);
}

for (const [theme, part] of Object.entries({ light, dark })) {
  test(`what is drawn and written in a role's colour is seen, ${theme}`, () => {
    const named = { ...colours(light), ...colours(part) };
    for (const role of ["quality", "recon", "held-out", "drift", "penalty"]) {
      for (const [name, least] of /** @type {const} */ ([
        [role, 3],
        [`${role}-faint`, 3],
        [`${role}-ink`, 4.5],
      ])) {
        if (role === "recon" && name === "recon-faint") continue; // nothing is compared with on calibration text
        const found = contrast(named[name], named.surface);
        assert.ok(found >= least, `--${name} ${named[name]}: ${found.toFixed(2)}`);
      }
    }
    const [unseen, calibration] = ["held-out", "recon"].map((role) => contrast(named[role], named.surface));
    assert.ok(unseen > 1.5 * calibration, "unseen text, which matters, stands out more");
  });
}
