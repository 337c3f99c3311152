"""Studies over REST: shipped ones and those of this host, found by id and cached by browsers.

The arrays of a study are one file, of which browsers ask for ranges of bytes; under the address with its checksum it
never changes and may be cached for ever. Everything else is revalidated, and answered with 304 while unchanged.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from sarqc.errors import NotFound, Refused
from sarqc.figures.compare import LETTERS, Ending, compare_view
from sarqc.files.stored_archive import archive_parts, archive_size
from sarqc.jobs.links import DAYS
from sarqc.jobs.listing import Question
from sarqc.jobs.tuned import tuned
from sarqc.settings import Settings
from sarqc.study.document import Study, array_files
from sarqc.study.kept_codes import model_files
from sarqc.study.library import DamagedStudy, StudySummary, first_study, summary_of
from sarqc.study.tensors import FILE
from sarqc.web.access import Access, Days, Who, visitor_of
from sarqc.web.draws import JoinedDraws
from sarqc.web.responses import ASK_AGAIN, FOR_EVER_MINE, ApiRoute, UploadRoute, WrittenAnswers, json_body
from sarqc.web.uploads import CHECKED_AT_ONCE, UNDER_WAY, clear_leftovers, received, store_upload, too_busy, too_large
from sarqc.web.visitor import Visitor

AT_MOST = len(LETTERS)  # studies in one comparison
LONGEST_PART = 10_000  # rows of a table in one answer: a mixture's map has hundreds of thousands
WRITTEN_BYTES = 64 << 20  # of answers that are kept: the view of a mixture has some MiB


def studies_router(settings: Settings, access: Access) -> APIRouter:
    """Return the routes under ``/studies`` and ``/compare``."""
    library, written = access.library, WrittenAnswers(WRITTEN_BYTES)
    router = APIRouter(route_class=ApiRoute, tags=["studies"])
    router.include_router(_upload_router(settings, access))

    def open_study(who: Visitor, study_id: str) -> Study:
        return library.open(access.study(who, study_id))

    def respond(request: Request, study_ids: Sequence[str], make: Callable[..., Any], **asked: Hashable) -> Response:
        """Return the document that ``make`` makes of studies that a visitor may see, with the arguments ``asked``."""
        seen = [access.study(visitor_of(request), study_id) for study_id in study_ids]
        versions = tuple(map(library.version, seen))  # before opening: a change in between is no older
        studies = [library.open(study_id) for study_id in seen]
        key = (make.__name__, versions, *asked.values())
        return written.respond(request, key, lambda: make(*studies, **asked))

    @router.get("/studies")
    def list_studies(request: Request, who: Who) -> Response:
        """Studies that one may see, newest first, without those of previews that nobody kept; ``is_mine``: whether one
        may share and remove it."""
        listing = library.listing()
        passing = {run.id for run in access.store.passing_previews()}
        every: list[StudySummary | DamagedStudy] = [*listing["studies"], *listing["damaged"]]
        mine = access.studies_seen(who, {study["id"]: study["origin"] for study in every if study["id"] not in passing})
        seen = [study for study in listing["studies"] if study["id"] in mine]
        return json_body(
            request,
            {
                "studies": [study | {"is_mine": mine[study["id"]]} for study in seen],
                "damaged": [
                    study | {"is_mine": mine[study["id"]]} for study in listing["damaged"] if study["id"] in mine
                ],
                "first": first_study(seen),
            },
        )

    @router.get("/studies/{study_id}")
    def get_study(request: Request, study_id: str) -> Response:
        """Return a whole study.json, in the current schema."""
        return respond(request, [study_id], _document)

    @router.delete("/studies/{study_id}", status_code=204)
    def delete_study(who: Who, study_id: str) -> Response:
        """Remove a study that was uploaded or left by the command line; for its owner alone where others have it."""
        access.own_study(who, study_id, f"DELETE study {study_id}")
        mine = None if access.sees_everything(who) else who.owner
        library.check_deletable(study_id)
        access.audit.note(who.owner, "delete", "study", study_id)
        if access.studies.remove(study_id, mine):
            access.links.revoke(study_id)
            library.delete(study_id)
        return Response(status_code=204)

    @router.get(f"/studies/{{study_id}}/{FILE}")
    def get_arrays(who: Who, study_id: str, v: str = "") -> Response:
        """Return all arrays as one safetensors file, or a range of its bytes. With the study's checksum as ``v`` the
        answer may be kept for ever."""
        study = open_study(who, study_id)
        is_current = bool(v) and v == study.checksum
        return _bytes(library.arrays(study_id), FOR_EVER_MINE if is_current else ASK_AGAIN)

    @router.get("/studies/{study_id}/arrays/{file}")
    def get_former_array(who: Who, study_id: str, file: str) -> Response:
        """Return the raw bytes of one array of a study from before version 4: little-endian, C order."""
        access.study(who, study_id)
        return _bytes(library.former_array(study_id, file), FOR_EVER_MINE)

    @router.get("/studies/{study_id}/model/{file}")
    def get_model_file(who: Who, study_id: str, file: str, v: str = "") -> Response:
        """Return a file with which pages run the model of a study whose codes are kept: of the float model, or the
        codes of a point (pack-quantized, safetensors). The study's view lists them. With its version as ``v`` the
        answer may be kept for ever."""
        files = model_files(open_study(who, study_id), settings.embedded_models_dir(), file)
        if file not in files:
            raise NotFound(f"no file “{file}” of the model", f"study {study_id}", "The view of the study lists them.")
        entry, path = files[file]
        return _bytes(path, FOR_EVER_MINE if v == entry["version"] else ASK_AGAIN)

    @router.get("/studies/{study_id}/view")
    def get_view(
        request: Request,
        study_id: str,
        method: str | None = None,
        bits: int | None = None,
        layer: str | None = None,
        draw: str | None = None,
        quantity: str | None = None,
        steps: str | None = None,
    ) -> Response:
        """Return the facts and figures of the Lab for one line (none: the one that tells most), one layer (none: all),
        one calibration draw (none: the mean over all) and one quantity for the map of layers (none: the error on unseen
        text); ``steps``: the order of the ladder's, joined by commas."""
        from sarqc.figures import lab_view

        return respond(
            request,
            [study_id],
            lab_view,
            method=method,
            bits=bits,
            layer=layer,
            draw=draw,
            quantity=quantity,
            steps=steps,
        )

    @router.get("/studies/{study_id}/tables/{figure}")
    def get_table(
        request: Request,
        study_id: str,
        figure: str,
        method: str,
        bits: int,
        layer: int | None = None,
        draw: int | None = None,
        steps: str | None = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=LONGEST_PART)] = LONGEST_PART,
    ) -> Response:
        """Return the numbers behind a figure of the Lab at full precision, for every γ and λ of a line; ``steps``: the
        order of the ladder's. Of many rows a part: at most ``limit`` from ``offset`` on, of ``total``."""
        from sarqc.figures import figure_table

        return respond(
            request,
            [study_id],
            figure_table,
            figure=figure,
            method=method,
            bits=bits,
            layer=layer,
            draw=draw,
            steps=steps,
            offset=offset,
            limit=limit,
        )

    @router.get("/studies/{study_id}/download")
    def download(who: Who, study_id: str) -> Response:
        """Return the study as a zip file that unpacks into a folder of its name."""
        study = open_study(who, study_id)
        files = {f"{study_id}/{name}": study.file(name) for name in ["study.json", *array_files(study)]}
        headers = {"Content-Disposition": f'attachment; filename="{study_id}.zip"', "Cache-Control": "no-store"}
        if (size := archive_size(files)) is not None:
            headers["Content-Length"] = str(size)
        return StreamingResponse(archive_parts(files), media_type="application/zip", headers=headers)

    @router.post("/studies/{study_id}/link", status_code=201)
    def make_link(who: Who, study_id: str, days: Days = DAYS) -> dict[str, str]:
        """Return a new share link: anyone who has it sees the study, for so many ``days`` or until the links of the
        study are ended. A study has 20 at a time at most."""
        return access.share(who, "study", study_id, days)

    @router.delete("/studies/{study_id}/link", status_code=204)
    def end_links(who: Who, study_id: str) -> Response:
        """End all share links of a study."""
        access.end_links(who, "study", study_id)
        return Response(status_code=204)

    @router.get("/compare")
    def compare(request: Request, who: Who, ids: str) -> Response:
        """Two or more studies side by side; ``ids`` are separated by commas."""
        names = list(dict.fromkeys(part.strip() for part in ids.split(",") if part.strip()))
        if not 2 <= len(names) <= AT_MOST:
            raise Refused(f"{len(names)} studies can't be compared", "compare", f"Give 2 to {AT_MOST} different ids.")

        joined = JoinedDraws(access.store, access.question(who, Question()))
        ended = {run.id: Ending(tuned(run.summary), joined.of(run)) for run in access.store.runs(names)}

        def compare_studies(*studies: Study, **_: Hashable) -> Any:
            return compare_view(studies, [ended.get(name, Ending()) for name in names])

        return respond(request, names, compare_studies, ended=repr(ended))

    return router


def _document(study: Study) -> dict[str, Any]:
    return study.model_dump(mode="json")


def _upload_router(settings: Settings, access: Access) -> APIRouter:
    library = access.library
    router = APIRouter(route_class=UploadRoute, tags=["studies"])
    limit, root = int(settings.upload_mib * 2**20), settings.uploads_dir()
    clear_leftovers(root)
    places, checks = asyncio.Semaphore(UNDER_WAY), asyncio.Semaphore(CHECKED_AT_ONCE)

    @router.post("/studies", status_code=201)
    async def upload(request: Request, who: Who) -> Response:
        """Take the zip file of a download as the body. Nothing of it is kept unless all of it is right."""
        who.require_runner("POST /api/studies")
        await run_in_threadpool(access.studies.check_room, who.owner, settings.study_uploads_each)
        if places.locked():
            raise too_busy()
        async with places, received(request, root, limit, too_large(limit)) as (archive, size), checks:
            study_id, is_new = await run_in_threadpool(store_upload, archive, root, limit)
        study = await run_in_threadpool(library.open, study_id)
        await run_in_threadpool(access.studies.add, study_id, who.owner, study.title, size)
        await run_in_threadpool(access.audit.note, who.owner, "upload", "study", study_id, who.owner)
        headers = {"Location": f"/api/studies/{study_id}"}
        return JSONResponse(summary_of(study, study_id, "uploaded"), 201 if is_new else 200, headers=headers)

    return router


def _bytes(path: Path, cache: str) -> Response:
    return FileResponse(path, media_type="application/octet-stream", headers={"Cache-Control": cache})
