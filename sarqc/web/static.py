"""Scripts and styles of the pages: compressed, and kept for ever by browsers, since addresses change with content.

``/assets/v-<version>/js/lab/lab_page.js`` imports its neighbours by relative addresses: the same version. The
same files without a version are there too, to be asked about each time.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from importlib import metadata, util
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response

from sarqc.errors import NotFound, Refused
from sarqc.figures.plotly_figure import colours_of
from sarqc.files.names import path_of
from sarqc.web.responses import ASK_AGAIN, FOR_EVER, ApiRoute, file_response

# The folders that are public: what is in them, by the end of its name, and its type. "vendor" holds scripts of others.
FOLDERS = {"js": (".js", "text/javascript"), "css": (".css", "text/css"), "vendor": (".js", "text/javascript")}
THEME_SCRIPT = """(() => {
  let choice = null;
  try { choice = localStorage.getItem("sarqc-theme"); } catch {}
  const dark = choice ? choice === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();"""


def content_version(folder: Path) -> str:
    """What changes with any byte, name or place of a script or style under an assets folder."""
    stamps = []
    for path in sorted(path for name, (suffix, _) in FOLDERS.items() for path in (folder / name).rglob(f"*{suffix}")):
        stat = path.stat()
        stamps.append((path.relative_to(folder).as_posix(), stat.st_mtime_ns, stat.st_size))
    return _version(folder, tuple(stamps))


_Stamps = tuple[tuple[str, int, int], ...]  # of each file: its name, when it was changed, and its size
_known: dict[tuple[Path, str], frozenset[tuple[str, int, int]]] = {}  # of each version that was asked for


def _is_of(folder: Path, version: str, file: Path) -> bool:
    """Whether a file is as it is in a version: by its own stamp, and by all stamps only where that is another."""
    stat = file.stat()
    stamp = (file.relative_to(folder.resolve()).as_posix(), stat.st_mtime_ns, stat.st_size)
    return stamp in _known.get((folder, version), ()) or version == content_version(folder)


@lru_cache(maxsize=8)
def _version(folder: Path, stamps: _Stamps) -> str:
    """Read once as long as the files are the same."""
    digest = hashlib.sha256()
    for name, _, _ in stamps:
        for part in (name.encode(), (folder / name).read_bytes()):
            digest.update(hashlib.sha256(part).digest())
    version = digest.hexdigest()[:12]
    _known[folder, version] = frozenset(stamps)
    return version


@cache
def assets_root(folder: Path, root: str) -> str:
    """Where a page finds ``js/`` and ``css/``; ``root``: of the site, see ``Settings.root``. Told once: a page that is
    open keeps the version it came with."""
    return f"{root}/assets/v-{content_version(folder)}"


def assets_router(folder: Path) -> APIRouter:
    """The routes, one for each folder: Gradio keeps its files under ``/assets`` too, and the models must not show."""
    router = APIRouter(include_in_schema=False, route_class=ApiRoute)
    for name in FOLDERS:
        _add(router, folder, name)

    @router.api_route("/favicon.ico", methods=["GET", "HEAD"])
    def no_icon() -> Response:
        """Browsers ask before they have read that a page has no icon."""
        return Response(status_code=204, headers={"Cache-Control": "max-age=86400"})

    return router


def _add(router: APIRouter, folder: Path, name: str) -> None:
    @router.api_route(f"/assets/{name}/{{path:path}}", methods=["GET", "HEAD"])
    def latest(request: Request, path: str) -> Response:
        """A file as it is now: an edit shows at the next load."""
        return _answer(request, _file(folder / name, path), name, ASK_AGAIN)

    @router.api_route(f"/assets/v-{{version}}/{name}/{{path:path}}", methods=["GET", "HEAD"])
    def versioned(request: Request, version: str, path: str) -> Response:
        """The same, to be kept for ever where the version is that of the files as they are now."""
        file = _file(folder / name, path)
        return _answer(request, file, name, FOR_EVER if _is_of(folder, version, file) else ASK_AGAIN)


def _answer(request: Request, file: Path, name: str, cache: str) -> Response:
    return file_response(request, file, FOLDERS[name][1], cache=cache)


def _file(root: Path, path: str) -> Path:
    """Of a public folder. Raises ``NotFound``."""
    suffix, _ = FOLDERS[root.name]
    file = path_of(f"{root}/{path}")
    if file is None or file.suffix != suffix or not file.is_relative_to(root.resolve()) or not file.is_file():
        raise NotFound("no such file", f"assets, {root.name}", "Load the page again: the app may be a new one.")
    return file


def _add_assets(app: FastAPI, folder: Path) -> None:
    """Our own scripts and styles, and plotly's."""
    plotly, version = _plotly_file(), metadata.version("plotly")

    @app.get("/assets/plotly.min.js", include_in_schema=False)
    def plotly_script(request: Request, v: str | None = None) -> Response:
        """The script that plotly brings along; to be kept for ever when the address names its version."""
        return file_response(request, plotly, "text/javascript", cache=FOR_EVER if v == version else ASK_AGAIN)

    app.include_router(assets_router(folder))


def _plotly_file() -> Path:
    """plotly.min.js of the installed package, found without importing it, which would take a second."""
    spec = util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise Refused("plotly is not installed", "app", "pip install 'sarqc[app]'")
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def ground_style(assets: Path) -> str:
    """The ground in both themes, as rules, until the styles are there; an embedded page has none of its own."""
    light, dark = (colours_of(assets / "css" / "base.css", theme)["--ground"] for theme in ("light", "dark"))
    return f"html{{background:{light}}}[data-theme=dark]{{background:{dark}}}[data-embed]{{background:none}}"
