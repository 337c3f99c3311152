"""Theme and ground before the first paint: a dark page never flashes white. ``base/theme.js`` goes on from it."""

from __future__ import annotations

from pathlib import Path

from sarqc.figures.plotly_figure import colours_of

THEME_SCRIPT = """(() => {
  let choice = null;
  try { choice = localStorage.getItem("sarqc-theme"); } catch {}
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();"""


def ground_style(assets: Path) -> str:
    """The ground in both themes, as rules, until the styles are there; an embedded page has none of its own."""
    light, dark = (colours_of(assets / "css" / "base.css", theme)["--ground"] for theme in ("light", "dark"))
    return f"html{{background:{light}}}[data-theme=dark]{{background:{dark}}}[data-embed]{{background:none}}"
