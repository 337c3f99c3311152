"""The Lab of studies as a folder of files for any file server: sizes beforehand, the files, and the folder itself.

The documents of pages are given; their answers from the REST interface are written as files
(``sarqc/figures/slices.py``), compressed, since plain file servers do not compress. Each study has a folder of its
name.
"""

import json
import multiprocessing
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import sarqc
from sarqc.errors import NotFound, Refused
from sarqc.figures.slices import DETAILS, Contents, Detail, FurtherLayers, Slice, contents, files_of, pieces
from sarqc.figures.view import default_line
from sarqc.files.names import read_object
from sarqc.plain import mib
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from sarqc.study.kept_codes import files_of_model, kept_codes, model_files
from sarqc.study.library import STUDY_ID, Library, StudySummary, summary_of
from sarqc.web.link_preview import FirstSight, Introduction, introduction_of, point_of, sight_of
from sarqc.web.site_files import packed, write_piece
from sarqc.web.space import space_files
from sarqc.web.static import PICTURE

MARK = "site.json"  # in the folder of a site: its files, which the next one may replace
TOUR = "learn"  # folder of the tour
MODEL = "model"  # folder of a study's model, in that of the study
RESERVED = ("assets", "index.html", "README.md", MARK, PICTURE, TOUR)  # names beside the folders of studies
TEXTS = (".css", ".html", ".js", ".json", ".md")  # of a site, which are not compressed yet


class Site(NamedTuple):
    """Data of a document for its scripts, see ``assets/js/base/published.js``."""

    listing: dict[str, Any]
    folders: dict[str, str]
    contents: dict[str, Contents]


@dataclass(frozen=True)
class StudyDocument:
    """Contents of a study's document."""

    name: str
    introduction: Introduction
    sight: FirstSight
    site: Site
    root: str  # of the site, from the document
    address: str  # absolute, where it is known
    is_alone: bool


class SingleLayer(NamedTuple):
    """A layer of a line on its own."""

    method: str
    bits: int
    layer: str


@dataclass(frozen=True)
class Documents:
    """Writers of the documents of a site, and their scripts and styles.

    Attributes:
        study: Writes the document of a study.
        listing: Writes the list of studies, of their introductions and the address.
        resources: Files by their places in the site.
        tour: Writes Learn, of its numbers and its address; None for a site without its studies.
        tour_layers: Single layers that the tour shows, by study.
    """

    study: Callable[[StudyDocument], str]
    listing: Callable[[Introduction, Sequence[tuple[str, Introduction]], str], str]
    resources: Mapping[str, str]
    tour: Callable[[Site, str], str] | None
    tour_layers: Mapping[str, Sequence[SingleLayer]]


class Selected(NamedTuple):
    """A study with its selected content, see ``sarqc.figures.slices``."""

    study: Study
    detail: Detail
    further: FurtherLayers


def open_studies(names: Sequence[str], settings: Settings) -> dict[str, Study]:
    """Return studies by the names of their folders. ``names``: of their folders, or ids of studies of this host.

    Raises ``NotFound``, ``Refused`` for two studies of one name or a name that no address can have, and ``Conflict`` if
    arrays are damaged.
    """
    library = Library(settings, lambda _: ())
    studies: dict[str, Study] = {}
    for name in names:
        folder = Path(name).expanduser()
        if (folder / "study.json").is_file():
            study = Study.open(folder.resolve())
        elif STUDY_ID.fullmatch(name):
            study = library.open(name)
        else:
            raise NotFound("no study there", name, "Give a folder with study.json, or the id of a study of this host.")
        own = study.folder.name
        if not STUDY_ID.fullmatch(own):
            what = "the name of the study can't be part of an address"
            raise Refused(what, own, "Rename its folder: a-z, 0-9, - _ .")
        if own in studies or own in RESERVED:
            raise Refused(f"another folder of the site has the name “{own}”", name, "Rename the folder of the study.")
        studies[own] = study
    return studies


def detail_named(text: str) -> Detail:
    """Return a level of detail by name. Raise ``Refused`` for another word."""
    if text in DETAILS:
        return text
    raise Refused(f"unknown detail “{text}”", "--detail", f"Give {', '.join(DETAILS)}.")


def check_output(output: Path) -> tuple[str, ...]:
    """Return the files of the site in a folder, none of a new or empty one. Raises ``Refused`` for any other folder."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return ()
    remedy = "Give a new folder, or one that publish has written: only such a one is replaced."
    try:
        files = read_object(output / MARK, str(output), remedy=remedy)["files"]
        paths = [PurePosixPath(name) for name in files]  # which takes texts alone
        if any(path.is_absolute() or ".." in path.parts for path in paths):
            raise ValueError
    except (Refused, ValueError, KeyError, TypeError):
        raise Refused("the output folder holds something that is not a site", str(output), remedy) from None
    _check_links(output, paths)
    return tuple(files)


def _check_links(output: Path, paths: Iterable[PurePosixPath]) -> None:
    """Refuse a folder where files of a site would be in another one, to which a link leads."""
    for folder in sorted({output / folder for path in paths for folder in path.parents if folder.name}):
        if folder.is_symlink():
            raise Refused(f"{folder.name} in the folder is a link", str(output), "Remove it, or give a new folder.")


@dataclass(frozen=True)
class SitePlan:
    """Size of a study within a site.

    Attributes:
        views: Number of its views.
        view_bytes: Of these views, about.
        file_bytes: Of the study itself, to download.
        model_bytes: Of the files with which the page runs its model; 0 for a study without them.
    """

    views: int
    view_bytes: int
    file_bytes: int
    model_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Estimated bytes of everything."""
        return self.view_bytes + self.file_bytes + self.model_bytes

    @property
    def words(self) -> str:
        """The same for people."""
        model = f"; {mib(self.model_bytes)} to run its model in the page" if self.model_bytes else ""
        return f"{self.views} views, about {mib(self.view_bytes)}; {mib(self.file_bytes)} to download{model}"


def plan_site(study: Study, detail: Detail) -> SitePlan:
    """Return the estimated size of a study's site, from two of its views."""
    every = [piece for piece in pieces(study, detail) if piece.kind == "view"]
    opening = study.lines.index(default_line(study, None, None))
    samples = {
        number: sum(len(packed(document)) for _, document in files_of(study, Slice("view", number)))
        for number in {opening, len(study.lines) // 2}
    }
    usual = sum(samples.values()) / len(samples)
    size = sum(samples.get(piece.number, usual) for piece in every)
    own = sum(study.file(file).stat().st_size for file in contents(study, detail)["files"])
    codes = kept_codes(study)
    model = sum(file["bytes"] for file in files_of_model(codes)) if codes else 0
    return SitePlan(len(every), int(size), own, model)


def write_site(
    studies: Mapping[str, Study],
    output: Path,
    settings: Settings,
    documents: Callable[[Collection[str]], Documents],
    *,
    detail: Detail = "opening",
    address: str = "",
    processes: int = 1,
    space: bool = False,
) -> int:
    """Write a site; the former one in the folder is replaced once the new one is whole.

    Args:
        studies: Studies by name, see ``open_studies``; the first is shown where there is one alone.
        output: The folder of the site.
        settings: Where the assets are.
        documents: How the documents of a site with studies of these names are written.
        detail: The lines with views of single layers and draws.
        address: Absolute address of the site, which some readers of link previews need; empty where it is not known.
        processes: Processes that make views; 1: this one.
        space: Adds what a static Space of Hugging Face needs, see ``sarqc.web.space``.

    Returns the bytes written. Raises ``Refused`` as ``check_output``, and where the folder can't be written.
    """
    former, written = check_output(output), documents(studies)
    selected = {
        name: Selected(study, detail, _positions(study, written.tour_layers.get(name, ())))
        for name, study in studies.items()
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as temporary:
        made = Path(temporary) / "site"
        made.mkdir()
        for name in selected:
            (made / name).mkdir()
        with _writing_pieces(selected, made, processes):
            _write_own_files(selected, made)
            _write_models(studies, made, settings)
            _write_documents(selected, made, settings, written, address.rstrip("/"))
        for name, text in space_files([study.title for study in studies.values()]).items() if space else ():
            (made / name).write_text(text, encoding="utf-8")
        files = [path.relative_to(made).as_posix() for path in _files_below(made)]
        mark = {"version": sarqc.__version__, "studies": list(studies), "files": [*files, MARK]}
        (made / MARK).write_text(json.dumps(mark, indent=1), encoding="utf-8")
        size = sum(path.stat().st_size for path in _files_below(made))
        _replace(output, former, made)
    return size


def check_archive(path: Path) -> None:
    """Raise ``Refused`` where a zip file can't be written because something is there."""
    if path.exists():
        raise Refused("there is a file already", str(path), "Give another name, or remove it.")


def write_archive(path: Path, write: Callable[[Path], int]) -> int:
    """Write a site as one zip file, which unpacks into a folder of its name; return its size in bytes.

    ``write`` writes the site into a folder, see ``write_site``; the same site gives the same bytes. Raises as
    ``check_archive``.
    """
    check_archive(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as temporary:
        site, packed = Path(temporary) / path.stem, Path(temporary) / path.name
        write(site)
        with zipfile.ZipFile(packed, "w") as archive:
            for file in _files_below(site):
                entry = zipfile.ZipInfo(file.relative_to(site.parent).as_posix())  # with the time of a zip's beginning
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if file.suffix in TEXTS else zipfile.ZIP_STORED
                with file.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target)
        packed.rename(path)
    return path.stat().st_size


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _positions(study: Study, layers: Sequence[SingleLayer]) -> FurtherLayers:
    names = [layer.name for layer in study.layers]
    return [(study.lines.index(study.line(layer.method, layer.bits)), names.index(layer.layer)) for layer in layers]


def _replace(output: Path, former: Sequence[str], made: Path) -> None:
    """Replace the former site; other files stay. Raise ``Refused`` for one that the site would overwrite."""
    files = [path.relative_to(made) for path in _files_below(made)]
    _check_links(output, [PurePosixPath(file) for file in files])
    for file in files:
        if (output / file).exists() and file.as_posix() not in (*former, MARK):
            raise Refused(f"the folder has a file {file} that is not of the site", str(output), "Move it elsewhere.")
    for name in former:
        (output / name).unlink(missing_ok=True)
    emptied = {output / folder for name in former for folder in PurePosixPath(name).parents if folder.name}
    for folder in sorted(emptied, reverse=True):  # inner ones first
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    for file in files:
        place = output / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made / file, place)


@contextmanager
def _writing_pieces(selected: Mapping[str, Selected], made: Path, processes: int) -> Iterator[None]:
    """Write all pieces while the block runs; with one process, after it."""
    work = [
        (selection.study.folder, made / name, piece)
        for name, selection in selected.items()
        for piece in pieces(*selection)
    ]
    if processes == 1:
        yield
        for job in work:
            write_piece(job)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        written = pool.map(write_piece, work, chunksize=8)
        yield
        for _ in written:
            pass  # an error in a process comes out here


def _write_own_files(selected: Mapping[str, Selected], made: Path) -> None:
    """Write the table of contents of each study, and the study itself."""
    for name, selection in selected.items():
        known = contents(*selection)
        (made / name / "contents.json.gz").write_bytes(packed(known))
        for file in known["files"]:
            place = made / name / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(selection.study.file(file), place)


def _write_models(studies: Mapping[str, Study], made: Path, settings: Settings) -> None:
    """Write the files with which pages run the models of studies with stored codes."""
    for name, study in studies.items():
        if kept_codes(study) is not None:
            (made / name / MODEL).mkdir(parents=True)
            for file, (_, path) in model_files(study, settings.embedded_models_dir()).items():
                shutil.copyfile(path, made / name / MODEL / file)


def _write_documents(
    selected: Mapping[str, Selected], made: Path, settings: Settings, documents: Documents, address: str
) -> None:
    summaries = [summary_of(selection.study, name, "shipped") for name, selection in selected.items()]
    is_alone = len(selected) == 1
    introductions: list[tuple[str, Introduction]] = []
    for name, selection in selected.items():
        page = _study_page(name, selection, summaries, address)
        introductions.append((name, page.introduction))
        (made / name / "index.html").write_text(documents.study(page), encoding="utf-8")
        if is_alone:
            first = replace(
                page, root="./", address=address and f"{address}/", site=page.site._replace(folders={name: f"{name}/"})
            )
            (made / "index.html").write_text(documents.study(first), encoding="utf-8")
    if not is_alone:
        listing = documents.listing(Introduction("Studies"), introductions, address and f"{address}/")
        (made / "index.html").write_text(listing, encoding="utf-8")
    if documents.tour is not None:
        folders = {name: f"../{name}/" for name in selected}
        site = Site(_listing(summaries, ""), folders, {})
        (made / TOUR).mkdir()
        text = documents.tour(site, address and f"{address}/{TOUR}/")
        (made / TOUR / "index.html").write_text(text, encoding="utf-8")
    shutil.copyfile(settings.assets_dir / PICTURE, made / PICTURE)
    for resource, text in documents.resources.items():
        path = made / resource
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _study_page(name: str, selected: Selected, summaries: Sequence[StudySummary], address: str) -> StudyDocument:
    """Return the contents of a study's document."""
    study = selected.study
    line = default_line(study, None, None)
    facts = line_facts(study, method=line.name, bits=line.bits, layer=0 if len(study.layers) == 1 else None)
    at = point_of(facts, {})
    folders = {summary["id"]: "./" if summary["id"] == name else f"../{summary['id']}/" for summary in summaries}
    site = Site(_listing(summaries, name), folders, {name: contents(*selected)})
    introduction, sight = introduction_of(facts, at), sight_of(facts, at, banded=True)
    return StudyDocument(name, introduction, sight, site, "../", address and f"{address}/{name}/", len(summaries) == 1)


def _listing(summaries: Sequence[StudySummary], first: str) -> dict[str, Any]:
    """Return the list of studies as the REST interface answers it."""
    return {"studies": [{**summary, "is_mine": False} for summary in summaries], "damaged": [], "first": first}
