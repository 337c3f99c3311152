"""Studies over REST: found by id in the shipped ones and in those of this host, served so that browsers keep them.

Arrays are named by their content and never change, so they may be kept for ever; everything else is asked for again
and answered with 304 as long as it is the same.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse
from starlette.background import BackgroundTask

from sarqc.errors import Refused
from sarqc.jobs.store import Store
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.library import Library, _summary
from sarqc.web.responses import FOR_EVER, ApiRoute, UploadRoute, accepts_gzip, body_response, json_body
from sarqc.web.uploads import store_upload, too_large

AT_MOST = 8  # studies in one comparison


def studies_router(settings: Settings, store: Store) -> APIRouter:
    """The routes under ``/studies`` and ``/compare``."""
    library = Library(settings, store.has)
    router = APIRouter(route_class=ApiRoute, tags=["studies"])
    router.include_router(_upload_router(settings, library))

    @router.get("/studies")
    def list_studies(request: Request) -> Response:
        """Studies of this host and the shipped ones, newest first."""
        return json_body(request, library.listing())

    @router.get("/studies/{study_id}")
    def get_study(request: Request, study_id: str) -> Response:
        """A whole study.json, in the current schema."""
        study = library.open(study_id)
        return json_body(request, study.model_dump(mode="json"))

    @router.delete("/studies/{study_id}", status_code=204)
    def delete_study(study_id: str) -> Response:
        """Removes a study that was uploaded or left by the command line."""
        library.delete(study_id)
        return Response(status_code=204)

    @router.get("/studies/{study_id}/arrays/{file}")
    def get_array(request: Request, study_id: str, file: str) -> Response:
        """The raw bytes of an array: little-endian, C order; its reference in study.json says dtype and shape."""
        path = library.array(study_id, file)
        kind = "application/octet-stream"
        if "range" in request.headers or not accepts_gzip(request):
            headers = {"Cache-Control": FOR_EVER, "Vary": "Accept-Encoding"}
            return FileResponse(path, media_type=kind, headers=headers)
        return body_response(request, path.read_bytes(), kind, cache=FOR_EVER, etag=path.stem)

    @router.get("/studies/{study_id}/view")
    def get_view(
        request: Request,
        study_id: str,
        method: str | None = None,
        bits: int | None = None,
        layer: str | None = None,
        scale: str | None = None,
        draw: str | None = None,
        quantity: str | None = None,
    ) -> Response:
        """The facts and figures of the Lab for one line (none: the one that tells most), one layer (none: all), one
        named scale of the errors (none: raw), one calibration draw (none: the mean over all) and one quantity for the
        map of layers (none: the error on unseen text)."""
        from sarqc.figures import lab_view

        study = library.open(study_id)
        asked = {"method": method, "bits": bits, "layer": layer, "scale": scale, "draw": draw, "quantity": quantity}
        view = lab_view(study, **asked)
        return json_body(request, view)

    @router.get("/studies/{study_id}/tables/{figure}")
    def get_table(
        request: Request,
        study_id: str,
        figure: str,
        method: str,
        bits: int,
        layer: int | None = None,
        draw: int | None = None,
    ) -> Response:
        """The numbers behind a figure of the Lab at full precision, for every γ and λ of a line."""
        from sarqc.figures import figure_table

        study = library.open(study_id)
        table = figure_table(study, figure, method=method, bits=bits, layer=layer, draw=draw)
        return json_body(request, table)

    @router.get("/studies/{study_id}/download")
    def download(study_id: str) -> Response:
        """The study as a zip file that unpacks into a folder of its name."""
        study = library.open(study_id)
        with tempfile.NamedTemporaryFile(suffix=".zip", delete=False) as file:
            archive = Path(file.name)
            try:
                _pack(study, study_id, file)
            except BaseException:
                archive.unlink()
                raise
        return FileResponse(
            archive, media_type="application/zip", filename=f"{study_id}.zip", background=BackgroundTask(archive.unlink)
        )

    @router.get("/compare")
    def compare(request: Request, ids: str) -> Response:
        """Two or more studies side by side; ``ids`` are separated by commas."""
        from sarqc.figures import compare_view

        names = list(dict.fromkeys(part.strip() for part in ids.split(",") if part.strip()))
        if not 2 <= len(names) <= AT_MOST:
            raise Refused(f"{len(names)} studies can't be compared", "compare", f"Give 2 to {AT_MOST} different ids.")
        return json_body(request, compare_view([library.open(name) for name in names]))

    return router


def _upload_router(settings: Settings, library: Library) -> APIRouter:
    router = APIRouter(route_class=UploadRoute, tags=["studies"])
    limit = int(settings.upload_mib * 2**20)

    @router.post("/studies", status_code=201)
    async def upload(request: Request) -> Response:
        """Takes the zip file of a download as the body. Nothing of it is kept unless all of it is right."""
        root = settings.uploads_dir()
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root, prefix=".body-") as file:
            size = 0
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large(limit)
                await run_in_threadpool(file.write, chunk)
            file.flush()
            study_id, is_new = await run_in_threadpool(store_upload, Path(file.name), root, limit)
        study = await run_in_threadpool(library.open, study_id)
        headers = {"Location": f"/api/studies/{study_id}"}
        return JSONResponse(_summary(study, study_id, "uploaded"), 201 if is_new else 200, headers=headers)

    return router


def _pack(study: Study, study_id: str, file: Any) -> None:
    """study.json and the arrays it names, nothing else that may lie in the folder."""
    names = sorted({ref.file for line in study.lines for ref in line.arrays.values()})
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.write(study.folder / "study.json", f"{study_id}/study.json")
        for name in names:
            archive.write(study.folder / "arrays" / name, f"{study_id}/arrays/{name}")
