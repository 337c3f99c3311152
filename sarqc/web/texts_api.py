"""Uploaded texts: a file as the body of a request, stored under a name for recipes.

The numbers of a run reveal much of its test text, so a text is seen and used by its owner alone.
"""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from sarqc.calibration.text_files import READERS, UPLOAD_ENDINGS, read_plain, read_rows, text_name, text_path
from sarqc.errors import NotFound, Refused, TooLarge
from sarqc.files.hashes import sha256_of
from sarqc.files.settled import settle
from sarqc.jobs.run import iso_time
from sarqc.settings import Settings
from sarqc.web.access import Access, Who
from sarqc.web.responses import ApiRoute, UploadRoute, json_body
from sarqc.web.uploads import clear_leftovers, received

Title = Annotated[str, Query(max_length=120)]


def texts_router(settings: Settings, access: Access) -> APIRouter:
    """Return the routes under ``/texts``."""
    router = APIRouter(route_class=ApiRoute, tags=["texts"])
    router.include_router(_upload_router(settings, access))

    @router.get("/texts")
    def list_texts(request: Request, who: Who) -> Response:
        """Return the visitor's texts, newest first."""
        every = [
            {"name": text.id, "title": text.title, "bytes": text.bytes, "created": iso_time(text.created)}
            for text in access.texts.of(who.owner)
        ]
        return json_body(request, {"texts": every})

    @router.delete("/texts/{text_id}", status_code=204)
    def delete_text(who: Who, text_id: str) -> Response:
        """Remove one of one's own texts."""
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
    async def upload(request: Request, who: Who, title: Title = "", file: str = "", column: str = "") -> Response:
        """Take a text as the body and answer with the name that a recipe may give it.

        It is plain UTF-8 unless the name in ``file`` ends in .jsonl or .parquet. ``column``
        has the texts or chats of such a file that has several.
        """
        who.require_runner("POST /api/texts")
        await run_in_threadpool(access.texts.check_room, who.owner, settings.text_uploads_each)
        too_large = TooLarge(f"the text has more than {settings.text_mib:g} MiB", "texts", "Send a part of it.")
        async with received(request, root, limit, too_large) as (partial, _):
            ending = await run_in_threadpool(_normalise, partial, Path(file).suffix.lower(), column, limit)
            name, size = text_name(await run_in_threadpool(sha256_of, partial)), partial.stat().st_size
            title = "".join(filter(str.isprintable, title)).strip() or name  # no marks that turn its direction
            await run_in_threadpool(access.texts.add, name, who.owner, title, size)
            partial.rename(root / f"{name}{ending}")
            await run_in_threadpool(settle, root)
        return JSONResponse({"name": name, "title": title, "bytes": size}, 201)

    return router


def _normalise(path: Path, ending: str, column: str, limit: int) -> str:
    """Rewrite rows of any kind as JSON lines; return the text's ending. Raise ``Refused``."""
    if ending in READERS:
        rows = read_rows(path, "texts", ending=ending, column=column, limit=limit, joined_by=None)
        path.write_bytes(rows.text.encode())
        ending = UPLOAD_ENDINGS[1]
        is_empty = not path.stat().st_size
    else:
        is_empty, ending = not read_plain(path, "texts", ending).strip(), UPLOAD_ENDINGS[0]
    if is_empty:
        raise Refused("the text is empty", "texts", "Send a file with text in it.")
    return ending
