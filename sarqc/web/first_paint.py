"""The theme before the first paint, so that a dark page never flashes white; ``base/theme.js`` goes on from it."""

from __future__ import annotations

THEME_SCRIPT = """(() => {
  let choice = null;
  try { choice = localStorage.getItem("sarqc-theme"); } catch {}
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();"""
