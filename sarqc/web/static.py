"""Scripts and styles as the pages load them: joined to few files, compressed, and kept for ever by browsers, since
their addresses change with their content.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path

from fastapi import APIRouter, Request, Response

from sarqc.errors import NotFound
from sarqc.figures.plotly_figure import colours_of
from sarqc.web.responses import ASK_AGAIN, FOR_EVER, ApiRoute, CachedBody, body_response

FOLDERS = {"js": ".js", "css": ".css", "vendor": ".js"}  # of scripts, of styles, and of scripts of others
TYPES = {".js": "text/javascript", ".css": "text/css"}
Bundle = Callable[[Path], str]  # the text of a file, from the assets folder
SIGN_IN = "sign_in.css"
PICTURE = "picture.png"  # of link previews, in the assets folder
WORKER = "model_worker.js"  # runs a model beside the page
# A worker has the policy of its own answer: this one compiles WebAssembly, and fetches files of this site alone.
WORKER_POLICY = "default-src 'none'; connect-src 'self'; script-src 'wasm-unsafe-eval'"
THEME_SCRIPT = """(() => {
  const query = new URLSearchParams(location.search);
  let choice = null;
  if (!["0", "", null].includes(query.get("embed"))) choice = query.get("theme");
  else try { choice = localStorage.getItem("sarqc-theme"); } catch {}
  const isChosen = ["light", "dark"].includes(choice);
  const dark = isChosen ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();"""


def content_version(folder: Path) -> str:
    """Return a hash that changes with any byte, name or place of a script or style under an assets folder."""
    stamps = []
    for path in sorted(path for name, suffix in FOLDERS.items() for path in (folder / name).rglob(f"*{suffix}")):
        stat = path.stat()
        stamps.append((path.relative_to(folder).as_posix(), stat.st_mtime_ns, stat.st_size))
    return _version(folder, tuple(stamps))


_Stamps = tuple[tuple[str, int, int], ...]  # of each file: its name, when it was changed, and its size


@lru_cache(maxsize=8)
def _version(folder: Path, stamps: _Stamps) -> str:
    """Hash the files once while they are unchanged."""
    digest = hashlib.sha256()
    for name, _, _ in stamps:
        for part in (name.encode(), (folder / name).read_bytes()):
            digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]


@cache
def assets_root(folder: Path, root: str) -> str:
    """Return the address before the names of scripts and styles; ``root``: of the site, see ``Settings.root``. It stays
    the same as long as the process lives: an open page keeps its version."""
    return f"{root}/assets/v-{content_version(folder)}"


def join_styles(assets: Path, names: Sequence[str]) -> str:
    """Return the style sheets of these names in their order, as one."""
    return "".join((assets / "css" / f"{name}.css").read_text(encoding="utf-8") for name in names)


def assets_router(folder: Path, bundles: Mapping[str, Bundle]) -> APIRouter:
    """Return the route of the bundles, by their names. Gradio keeps its files under ``/assets`` too."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    every: dict[str, Bundle] = {SIGN_IN: partial(join_styles, names=("base", "sign_in")), **bundles}

    @lru_cache(maxsize=2 * len(every))
    def made(name: str, version: str) -> CachedBody:
        return CachedBody(every[name](folder).encode())

    @router.api_route("/assets/v-{version}/{name}", methods=["GET", "HEAD"])
    def bundle(request: Request, version: str, name: str) -> Response:
        """Return it as its files are now; to be kept for ever where the version is theirs."""
        if name not in every:
            raise NotFound("no such file", "assets", "Load the page again: the app may be a new one.")
        current = content_version(folder)
        body, cache = made(name, current), FOR_EVER if version == current else ASK_AGAIN
        media_type = TYPES[Path(name).suffix]
        answer = body_response(request, body, media_type, cache=cache)
        if name == WORKER:
            answer.headers["Content-Security-Policy"] = WORKER_POLICY
        return answer

    @router.api_route(f"/{PICTURE}", methods=["GET", "HEAD"])
    def picture(request: Request) -> Response:
        """Return the picture of link previews."""
        return body_response(request, CachedBody((folder / PICTURE).read_bytes()), "image/png")

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    def no_icon() -> Response:
        """Browsers ask before they have read that a page has no icon."""
        return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})

    return router


def ground_style(assets: Path) -> str:
    """Return the ground in both themes, as rules, until the styles are there; an embedded page has none of its own."""
    light, dark = (colours_of(assets / "css" / "base.css", theme)["--ground"] for theme in ("light", "dark"))
    return f"html{{background:{light}}}[data-theme=dark]{{background:{dark}}}[data-embed]{{background:none}}"
