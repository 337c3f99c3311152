"""Texts that people bring: a UTF-8 file as the body of a request, kept under a name that a recipe can give.

The numbers of a run tell much of the text it was measured on, so a text is seen and used by its owner alone.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from sarqc.calibration.uploaded_texts import text_name, text_path
from sarqc.errors import NotFound, Refused, TooLarge
from sarqc.files.settled import settle
from sarqc.jobs.run import iso_time
from sarqc.settings import Settings
from sarqc.web.access import Access, Who
from sarqc.web.responses import ApiRoute, UploadRoute, json_body
from sarqc.web.uploads import clear_leftovers, received

Title = Annotated[str, Query(max_length=120)]


def texts_router(settings: Settings, access: Access) -> APIRouter:
    """The routes under ``/texts``."""
    router = APIRouter(route_class=ApiRoute, tags=["texts"])
    router.include_router(_upload_router(settings, access))

    @router.get("/texts")
    def list_texts(request: Request, who: Who) -> Response:
        """The visitor's texts, newest first."""
        every = [
            {"name": text.id, "title": text.title, "bytes": text.bytes, "created": iso_time(text.created)}
            for text in access.texts.of(who.owner)
        ]
        return json_body(request, {"texts": every})

    @router.delete("/texts/{text_id}", status_code=204)
    def delete_text(who: Who, text_id: str) -> Response:
        """Removes one of one's own texts."""
        if who.owner not in access.texts.owners(text_id):
            raise NotFound(f"no text “{text_id}” of yours", "texts", "GET /api/texts lists them.")
        access.audit.note(who.owner, "delete", "text", text_id, who.owner)
        if access.texts.remove(text_id, who.owner):
            text_path(text_id, settings).unlink(missing_ok=True)
        return Response(status_code=204)

    return router


def _upload_router(settings: Settings, access: Access) -> APIRouter:
    router = APIRouter(route_class=UploadRoute, tags=["texts"])
    limit, root = int(settings.text_mib * 2**20), settings.text_uploads_dir()
    clear_leftovers(root)

    @router.post("/texts", status_code=201)
    async def upload(request: Request, who: Who, title: Title = "") -> Response:
        """Takes a UTF-8 text as the body and answers with the name that a recipe may give it."""
        who.require_runner("POST /api/texts")
        await run_in_threadpool(access.texts.check_room, who.owner, settings.text_uploads_each)
        too_large = TooLarge(f"the text has more than {settings.text_mib:g} MiB", "texts", "Send a part of it.")
        async with received(request, root, limit, too_large) as (partial, size):
            name = text_name(await run_in_threadpool(_digest, partial))
            title = title.strip() or name
            await run_in_threadpool(access.texts.add, name, who.owner, title, size)
            partial.rename(text_path(name, settings))
            await run_in_threadpool(settle, root)
        return JSONResponse({"name": name, "title": title, "bytes": size}, 201)

    return router


def _digest(path: Path) -> str:
    """Return the SHA-256 of a text. Raises ``Refused`` for an empty one, and for what is none."""
    try:
        with path.open(encoding="utf-8") as file:
            is_empty = not any(line.strip() for line in file)
    except UnicodeDecodeError as error:
        raise Refused(f"it is not UTF-8: {error.reason}", "texts", "Send a plain text in UTF-8.") from None
    if is_empty:
        raise Refused("the text is empty", "texts", "Send a file with text in it.")
    with path.open("rb") as text:
        return hashlib.file_digest(text, "sha256").hexdigest()
