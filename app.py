"""The web app: the pages at ``/``, the REST interface under ``/api``, scripts and styles under ``/assets``.

``python app.py`` serves it. Start and end of the workers belong to the app's lifespan; SIGTERM ends both, and runs
that were under way go on at the next start.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Scope

from sarqc import extras, logs
from sarqc.errors import SarqcError
from sarqc.jobs.sessions import Sessions
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import EXECUTE
from sarqc.settings import Settings, read_settings
from sarqc.web.access import Access
from sarqc.web.api import ON_THIS_HOST, Resolver, api_router
from sarqc.web.gate import Gate
from sarqc.web.identity import Identity
from sarqc.web.link_preview import Introductions
from sarqc.web.middleware import SecurityHeaders, SubPath
from sarqc.web.profile import check_profile, is_private
from sarqc.web.responses import OneShape, unexpected
from sarqc.web.sign_in import SignIn, sign_in_router
from sarqc.web.static import assets_router
from sarqc.web.visitor import Cookies

if TYPE_CHECKING:
    from pages.layout import Page

PAGE_BODY_BYTES = 1 << 20  # what a page may send to Gradio; the REST interface has its own limit
GRACE_SECONDS = 3  # for open connections when the app is asked to end
BACKLOG = 128  # connections that the host takes before the app does, at a time


def create_app(
    settings: Settings | None = None,
    *,
    execute: str = EXECUTE,
    resolve: Resolver = ON_THIS_HOST,
    with_pages: bool = True,
) -> FastAPI:
    """Return the whole app, not yet running; its store is open until the end of its lifespan.

    ``execute`` and ``resolve`` are replaced in tests, most of which have no pages. Raise ``Refused``
    when the state folder is in use or can't be written, and when the settings ask for a device that is not there.
    """
    settings = settings or Settings()
    check_settings(settings)
    if not is_private(settings):  # the operator's token of the Hub is not for strangers
        os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"
    store = Store(settings.database())
    try:
        cookies = Cookies(settings)
        supervisor = Supervisor(store, settings, execute=execute)
    except BaseException:
        store.close()
        raise

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(supervisor.start)
        try:
            yield
        finally:
            await run_in_threadpool(supervisor.stop)
            store.close()

    app = FastAPI(
        title="sarqc",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        servers=[{"url": settings.root()}] if settings.root() else None,
        docs_url=None,  # the documentation pages load scripts from a CDN
        redoc_url=None,
        exception_handlers={Exception: unexpected},
    )
    access = Access(settings, store)
    app.state.supervisor, app.state.access = supervisor, access
    introductions = Introductions(settings, access)
    every = _pages() if with_pages else ()

    def not_found(scope: Scope) -> Response:
        from pages.not_found import not_found

        return not_found(scope, introductions.own(scope), every, settings)

    identity = Identity(settings, cookies, access.links, Sessions(store))
    sign_in = SignIn(settings, identity, introductions)
    host = extras.Host(settings, supervisor, access, identity, sign_in, [page.path for page in every])
    app.state.host = host
    app.add_middleware(OneShape, not_found=not_found if with_pages else None)
    for extra in extras.installed():
        if extra.install is not None:
            extra.install(app, host)
    app.add_middleware(Gate, settings=settings, identity=identity, checks=host.checks, crowds=host.crowds)
    app.add_middleware(SecurityHeaders, frame_ancestors=settings.frame_ancestors)
    app.include_router(api_router(supervisor, settings, access, host.programs, resolve=resolve))
    app.include_router(sign_in_router(settings, identity, introductions, sign_in))
    if with_pages:
        _add_pages(app, settings, introductions, every)
    else:
        app.include_router(assets_router(settings.assets_dir, {}))
    for layer in host.around:
        app.add_middleware(layer)
    if settings.root():
        app.add_middleware(SubPath, root=settings.root())
    return app


def check_settings(settings: Settings) -> None:
    """Raise ``Refused`` for settings with which the app must not start, or that need a missing package."""
    check_profile(settings)
    if settings.access not in ("private", "token") or settings.strangers != "none":
        extras.required("host", "SARQC_ACCESS, SARQC_STRANGERS")
    for extra in extras.known().values():
        if not extras.is_installed(extra):
            for name in settings.of(extra.settings).model_fields_set if extra.settings else ():
                extras.required(extra.name, f"SARQC_{name.upper()}")
        elif extra.check is not None:
            extra.check(settings)


def _pages() -> tuple[Page, ...]:
    """Import the pages here: Gradio takes seconds, and reads its switch then."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    import pages

    return pages.PAGES


def _add_pages(app: FastAPI, settings: Settings, introductions: Introductions, every: tuple[Page, ...]) -> None:
    """Add Gradio at ``/``, behind everything else."""
    import gradio

    import pages
    from pages.document import Document, Packed
    from pages.resources import bundles

    app.include_router(assets_router(settings.assets_dir, bundles(every)))
    blocks = pages.build(settings).queue(api_open=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "SSR mode is not supported")  # it was not requested
        gradio.mount_gradio_app(
            app,
            blocks,
            path="/",
            root_path=settings.root() or None,
            mcp_server=False,
            max_file_size=PAGE_BODY_BYTES,
            app_kwargs={"max_body_size": PAGE_BODY_BYTES},
            **pages.layout.mount_options(),
        )
    mounted = app.router.routes[-1]
    assert isinstance(mounted, Mount)
    app.state.gradio = mounted.app
    mounted.app = Document(mounted.app, every, settings, introductions, extras.hiding_style())
    app.add_middleware(Packed, pages=every)


class Server(uvicorn.Server):
    """A server that ends the streams when the app has to end, which waits for open connections before its shutdown."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        state = self.app.state
        state.supervisor.bell.close()
        if hasattr(state, "gradio"):
            state.gradio.stop_event.set()
        await super().shutdown(sockets)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C. An error at the start is printed in one line, with exit code 2."""
    try:
        settings = read_settings()
        prepare_process(settings)
        app = create_app(settings)
    except SarqcError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    serve(app, settings)


def prepare_process(settings: Settings) -> None:
    """Let the process write private files, and its log."""
    os.umask(0o077)
    logs.configure(settings)


def serve(app: FastAPI, settings: Settings) -> None:
    """Run the server in this thread until it is asked to end."""
    options: dict[str, Any] = {}
    for extra in extras.installed():
        if extra.server is not None:
            options |= extra.server(app.state.host)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="asyncio",  # also if others are installed: the limits of connections are tested with it
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_SECONDS,
        access_log=False,
        proxy_headers=False,  # the gate believes them where the operator says so
        log_config=None,  # its lines go the way of all others, with their time
        **options,
    )
    # All that is imported stays: a collection of garbage looks at what requests leave, and holds none up for long.
    gc.collect()
    gc.freeze()
    Server(app, config).run()


if __name__ == "__main__":
    main()
