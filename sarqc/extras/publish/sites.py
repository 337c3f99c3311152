"""The Lab of studies as a folder of files for any file server: sizes beforehand, the files, and the folder itself.

Beside the documents of pages there are the answers of the REST interface as files (``slices.py``), compressed, since
plain file servers do not compress. Each study has a folder of its name.
"""

import json
import multiprocessing
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import sarqc
from sarqc.errors import NotFound, Refused
from sarqc.extras.publish.site_files import packed, write_piece
from sarqc.extras.publish.slices import DETAILS, Contents, Detail, Slice, contents, files_of, pieces
from sarqc.extras.publish.space import space_files
from sarqc.figures.view import default_line
from sarqc.files.names import read_object
from sarqc.plain import mib
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.kept_codes import files_of_model, kept_codes, model_files
from sarqc.study.library import STUDY_ID, Library
from sarqc.web.static import PICTURE

MARK = "site.json"  # in the folder of a site: its files, which the next one may replace
TOUR = "learn"  # folder of the tour
MODEL = "model"  # folder of a study's model, in that of the study
RESERVED = ("assets", "index.html", "README.md", MARK, PICTURE, TOUR)  # names beside the folders of studies
TEXTS = (".css", ".html", ".js", ".json", ".md")  # of a site, which are not compressed yet


def open_studies(names: Sequence[str], settings: Settings) -> dict[str, Study]:
    """Return studies by the names of their folders. ``names``: of their folders, or ids of studies of this host.

    Raise ``NotFound``, ``Refused`` for two studies of one name or a name that no address can have, and ``Conflict`` if
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
    """Return the files of the site in a folder, none of a new or empty one. Raise ``Refused`` for any other folder."""
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
    listed = contents(study, detail)
    every = [piece for piece in pieces(listed) if piece.kind == "view"]
    opening = study.lines.index(default_line(study, None, None))
    samples = {
        number: sum(len(packed(document)) for _, document in files_of(study, Slice("view", number)))
        for number in {opening, len(study.lines) // 2}
    }
    usual = sum(samples.values()) / len(samples)
    size = sum(samples.get(piece.number, usual) for piece in every)
    own = sum(study.file(file).stat().st_size for file in listed["files"])
    codes = kept_codes(study)
    model = sum(file["bytes"] for file in files_of_model(codes)) if codes else 0
    return SitePlan(len(every), int(size), own, model)


def write_site(
    studies: Mapping[str, Study],
    output: Path,
    settings: Settings,
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
        detail: The lines with views of single layers and draws.
        address: Absolute address of the site, which some readers of link previews need; empty where it is not known.
        processes: Processes that make views; 1: this one.
        space: Adds what a static Space of Hugging Face needs, see ``space.py``.

    Return the bytes written. Raise ``Refused`` as ``check_output``, and where the folder can't be written.
    """
    from sarqc.extras.publish.site_documents import SiteDocuments  # with which all of Gradio comes

    former, documents = check_output(output), SiteDocuments(settings, studies, address.rstrip("/"))
    listed = {name: contents(study, detail, documents.tour_layer(name)) for name, study in studies.items()}
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as temporary:
        made = Path(temporary) / "site"
        made.mkdir()
        for name in studies:
            (made / name).mkdir()
        with _writing_pieces(studies, listed, made, processes):
            for name, study in studies.items():
                _write_own_files(study, listed[name], made / name, settings)
            documents.write(made, listed)
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

    ``write`` writes the site into a folder, see ``write_site``; the same site gives the same bytes. Raise as
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


def write_own_archive(request: bytes) -> bytes:
    """Write the site of one study as a zip file, as ``site_archives.py`` asks for it; return its size."""
    parameters = json.loads(request)
    settings = Settings(**parameters["settings"])
    write = partial(write_site, open_studies([parameters["study"]], settings), settings=settings)
    return b"%d" % write_archive(Path(parameters["path"]), write)


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


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
def _writing_pieces(
    studies: Mapping[str, Study], listed: Mapping[str, Contents], made: Path, processes: int
) -> Iterator[None]:
    """Write all pieces while the block runs; with one process, after it."""
    work = [(study.folder, made / name, piece) for name, study in studies.items() for piece in pieces(listed[name])]
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


def _write_own_files(study: Study, listed: Contents, made: Path, settings: Settings) -> None:
    """Write the table of contents of a study, the study itself, and the files with which pages run its model."""
    (made / "contents.json.gz").write_bytes(packed(listed))
    copies = {file: study.file(file) for file in listed["files"]}
    if kept_codes(study) is not None:
        files = model_files(study, settings.embedded_models_dir())
        copies |= {f"{MODEL}/{file}": path for file, (_, path) in files.items()}
    for file, path in copies.items():
        (made / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, made / file)
