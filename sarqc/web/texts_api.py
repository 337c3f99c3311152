"""Texts that people bring: a UTF-8 file as the body of a request, kept under a name that a recipe can give.

The numbers of a run tell much of the text it was measured on, so a text is seen and used by its owner alone.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from sarqc.calibration.uploaded_texts import text_name, text_path
from sarqc.errors import NotFound, Refused, TooLarge
from sarqc.jobs.run import iso_time
from sarqc.jobs.uploads import Upload
from sarqc.settings import Settings
from sarqc.web.access import Access, visitor_of
from sarqc.web.responses import ApiRoute, UploadRoute, json_body
from sarqc.web.uploads import clear_leftovers

Title = Annotated[str, Query(max_length=120)]


def texts_router(settings: Settings, access: Access) -> APIRouter:
    """The routes under ``/texts``."""
    router = APIRouter(route_class=ApiRoute, tags=["texts"])
    router.include_router(_upload_router(settings, access))

    @router.get("/texts")
    def list_texts(request: Request) -> Response:
        """The visitor's texts, newest first."""
        return json_body(request, {"texts": [_entry(text) for text in access.texts.of(visitor_of(request).owner)]})

    @router.delete("/texts/{text_id}", status_code=204)
    def delete_text(request: Request, text_id: str) -> Response:
        """Removes one of one's own texts."""
        owner = visitor_of(request).owner
        if owner not in access.texts.owners(text_id):
            what = f"no text “{text_id}” of yours"
            raise NotFound(what, "texts", "GET /api/texts lists them.")
        access.audit.note(owner, "delete", "text", text_id, owner)
        if access.texts.remove(text_id, owner):
            text_path(text_id, settings).unlink(missing_ok=True)
        return Response(status_code=204)

    return router


def _upload_router(settings: Settings, access: Access) -> APIRouter:
    router = APIRouter(route_class=UploadRoute, tags=["texts"])
    limit, root = int(settings.text_mib * 2**20), settings.text_uploads_dir()
    clear_leftovers(root)

    @router.post("/texts", status_code=201)
    async def upload(request: Request, title: Title = "") -> Response:
        """Takes a UTF-8 text as the body and answers with the name that a recipe may give it."""
        who = visitor_of(request)
        who.require("runner", "POST /api/texts")
        await run_in_threadpool(access.texts.check_room, who.owner, settings.text_uploads_each)
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root, prefix=".body-", delete=False) as file:
            partial, size, digest = Path(file.name), 0, hashlib.sha256()
            try:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        what = f"the text has more than {settings.text_mib:g} MiB"
                        raise TooLarge(what, "texts", "Send a part of it.")
                    digest.update(chunk)
                    await run_in_threadpool(file.write, chunk)
                file.flush()
                await run_in_threadpool(_check_text, partial)
                name = text_name(digest.hexdigest())
                await run_in_threadpool(access.texts.add, name, who.owner, title.strip() or name, size)
                partial.rename(text_path(name, settings))
            finally:
                partial.unlink(missing_ok=True)
        return JSONResponse({"name": name, "title": title.strip() or name, "bytes": size}, 201)

    return router


def _check_text(path: Path) -> None:
    try:
        with path.open(encoding="utf-8") as file:
            empty = not any(line.strip() for line in file)
    except UnicodeDecodeError as error:
        what = f"it is not UTF-8: {error.reason}"
        raise Refused(what, "texts", "Send a plain text in UTF-8.") from None
    if empty:
        raise Refused("the text is empty", "texts", "Send a file with text in it.")


def _entry(text: Upload) -> dict[str, Any]:
    return {"name": text.id, "title": text.title, "bytes": text.bytes, "created": iso_time(text.created)}
