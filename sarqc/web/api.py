"""The REST interface under ``/api``: what is on offer, plans, runs and their events, studies; the routes are listed by
``GET /api/openapi.json``.

The visitor is never a claim of the request, see ``sarqc.web.identity``; their rights to see and change are in
``sarqc.web.access``. Hidden things are answered as if they were not there.
"""

import math
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from fastapi.sse import EventSourceResponse

import sarqc
from sarqc.engine.costs import on_processor
from sarqc.engine.plan import Job, resolve, together
from sarqc.errors import NotFound, QueueFull, SarqcError
from sarqc.events import BlockRounded, LadderStanding, TuningStanding
from sarqc.figures import ladder_view, rounding_view, tuning_view
from sarqc.files.kept_out import without_paths, without_secrets
from sarqc.jobs import exports
from sarqc.jobs.links import DAYS
from sarqc.jobs.listing import Question
from sarqc.jobs.run import Run, RunDocument, State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.workers import log_path
from sarqc.models.hub import configure
from sarqc.recipe import Recipe, axes, deprecations, expanded
from sarqc.recipe.texts import ProgramText, texts
from sarqc.settings import Settings
from sarqc.study.as_recipe import only_line
from sarqc.study.document import Line, Study
from sarqc.web import streams as sse
from sarqc.web.access import Access, Days, Holder, Who
from sarqc.web.admission import admit
from sarqc.web.draws import JoinedDraws
from sarqc.web.gate import METHODS
from sarqc.web.listing_api import LARGEST, Document, listing_router
from sarqc.web.planning import Planning
from sarqc.web.profile import is_private
from sarqc.web.queue_place import queue_place
from sarqc.web.responses import ApiRoute, json_body, own_address, refuse_other_sites
from sarqc.web.studies_api import studies_router
from sarqc.web.texts_api import texts_router
from sarqc.web.visitor import Visitor

LOG_BYTES = 65_536
NAMED_TEXT = "c4"  # known to every host: stands for the text that is not chosen yet
PLAN_HUB_SECONDS = 3.0  # of waiting for the Hub while planning; a run waits longer
SIGN_IN_HERE = ("token", "users", "huggingface")  # ways of access for which /sign-in asks people who they are
EVENTS = 10_000  # in a list
ROUNDED = 4096  # blocks of which early stopping kept a state, the newest
EXPORTS_TO_OPEN = 200  # the newest, offered in the form
NOT_OPENED = ("plain", "statistics")  # exports without codes; statistics: of tuning, up to 1.0
LIST_BYTES = 4 << 20  # of events in a list

Resolver = Callable[[Recipe, Settings], Job]
ON_THIS_HOST: Resolver = resolve
WritePrograms = Callable[[dict[str, Any], Study | None, Line | None], list[ProgramText]]
After = Annotated[int | None, Query(ge=0, le=LARGEST)]
ExportFormat = Annotated[str, Query(alias="format")]
LastEventId = Annotated[int | None, Header(ge=0, le=LARGEST)]
EventLimit = Annotated[int, Query(ge=1, le=EVENTS)]


def api_router(
    supervisor: Supervisor,
    settings: Settings,
    access: Access,
    programs: Iterable[WritePrograms] = (),
    *,
    resolve: Resolver = ON_THIS_HOST,
) -> APIRouter:
    """Return all routes.

    ``programs`` writes a recipe for other engines; ``resolve`` replaces ``sarqc.engine.plan.resolve`` in tests.
    """
    router = APIRouter(prefix="/api", route_class=ApiRoute, dependencies=[Depends(refuse_other_sites)])
    planning = Planning()
    router.include_router(_offer_router(supervisor, settings, access, planning, programs, resolve))
    router.include_router(listing_router(supervisor, access))
    router.include_router(_runs_router(supervisor, settings, access, planning, resolve))
    router.include_router(_streams_router(supervisor, access))
    router.include_router(studies_router(settings, access))
    router.include_router(texts_router(settings, access))

    @router.api_route("", methods=[*METHODS], include_in_schema=False)
    @router.api_route("/{path:path}", methods=[*METHODS], include_in_schema=False)
    def nothing_here(request: Request) -> None:
        where = f"{request.method} {request.url.path}"
        raise NotFound("no such route", where, "GET /api/openapi.json lists the routes.")

    return router


def _offer_router(
    supervisor: Supervisor,
    settings: Settings,
    access: Access,
    planning: Planning,
    programs: Iterable[WritePrograms],
    resolve: Resolver,
) -> APIRouter:
    router = APIRouter(route_class=ApiRoute, tags=["offer"])
    configure(settings)  # before it is asked in haste
    hasty = settings.model_copy(update={"hub_timeout": min(settings.hub_timeout, PLAN_HUB_SECONDS)})

    @router.get("/visitor")
    def visitor(who: Who) -> dict[str, Any]:
        """Return the visitor as this host knows them."""
        return {
            "name": who.owner,
            "role": who.role,
            "signed_in": who.signed_in,
            "can_sign_in": settings.access in SIGN_IN_HERE,
            "public": not is_private(settings),
        }

    @router.head("/health", include_in_schema=False)
    @router.get("/health")
    def health(who: Who) -> dict[str, Any]:
        """Return the state of the app: trouble, devices, runs."""
        devices, trouble = supervisor.devices(), supervisor.trouble
        if not access.sees_everything(who):  # owners of runs and troubles of the host are private
            devices = [device | {"run": None if device["run"] is None else "busy"} for device in devices]
            trouble = trouble and "The operator is needed."
        return {
            "version": sarqc.__version__,
            "trouble": trouble,
            "devices": devices,
            "runs": supervisor.store.counts(),
            "max_queued": settings.max_queued,
        }

    @router.get("/models")
    def models(request: Request, who: Who) -> Response:
        """Models that a recipe may name here, each with the checkpoints of it that may be opened: those of declared
        folders, and exports that the visitor may see."""
        from sarqc.models.catalogue import offered

        entries, shown = offered(settings), access.linked_runs(who)
        exported = _exported(supervisor, settings, access.sees(who))
        names = {run.recipe.get(field) for run in shown or () for field in ("model", "quantized_checkpoint")}
        seen = []
        for entry in entries:
            if shown is None or entry.where != "local" or entry.name in names:
                opened = [name for name in entry.opened if shown is None or name in names]
                seen.append(entry.model_dump(mode="json") | {"opened": [*opened, *exported.get(entry.name, ())]})
        return json_body(request, {"models": seen})

    @router.get("/model")
    async def model(who: Who, holder: Holder, name: str, revision: str | None = None) -> dict[str, bool]:
        """Return whether a model is on this host already; one that can't be taken is an error, as in a plan."""
        from sarqc.models.catalogue import checkpoint_of
        from sarqc.models.hub import NotCached

        who.require_runner("GET /api/model")
        named = {"model": name, "calibration": NAMED_TEXT} | ({"revision": revision} if revision else {})

        def look_up() -> dict[str, bool]:
            recipe = admit(Recipe.parse(named), who, access, settings)
            try:
                checkpoint_of(recipe.model, recipe.revision, hasty)
            except NotCached:
                return {"here": False}
            return {"here": True}

        return await planning.run(look_up, holder)

    @router.get("/corpora")
    def corpora(request: Request, who: Who) -> Response:
        """Texts that a recipe may name here, for calibration and for perplexity."""
        from sarqc.calibration.corpora import offered

        entries, shown = offered(settings), access.linked_runs(who)
        if shown is not None:
            names = {run.recipe.get(field) for run in shown for field in ("calibration", "test")}
            entries = [entry for entry in entries if entry.where != "local" or entry.name in names]
        return json_body(request, {"corpora": [entry.model_dump(mode="json") for entry in entries]})

    @router.post("/plan")
    async def make_plan(who: Who, holder: Holder, document: Document) -> dict[str, Any]:
        """Return what a recipe, or all of a batch, would take and leave, without doing it. Refusals are errors."""
        who.require_runner("POST /api/plan")

        def make() -> dict[str, Any]:
            jobs = _jobs(_recipes(document, settings), who, access, hasty, resolve)
            plans = [job.plan for job in jobs.values()]
            answer: dict[str, Any] = (plans[0] if len(plans) == 1 else together(plans)).model_dump(mode="json")
            answer["load"] = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2) if on_processor(settings) else 0.0
            if sentences := deprecations(document):
                answer["warnings"] = [*sentences, *answer["warnings"]]
            supervisor.expect()
            return answer

        return await planning.run(make, holder)

    @router.post("/recipe-texts")
    def recipe_texts(
        request: Request, who: Who, document: Document, study: str | None = None, line: str | None = None
    ) -> dict[str, Any]:
        """Return a recipe or a batch as texts to take elsewhere, with only what differs from the defaults, and a recipe
        of a run as programs for other engines. ``study`` and the name of its ``line``: what the run left, where “auto”
        chose λ for each layer."""
        recipes = _recipes(document, settings)  # not more runs than could wait here
        left, run_line, single = None, None, recipes.get("")
        if study is not None and single is not None:
            with suppress(NotFound):  # the run has no study yet
                left = access.library.open(access.study(who, study))
                run_line = left.line(line, single.bits) if line is not None else only_line(left)
        is_run = single is not None and single.kind == "run"
        return {
            "texts": texts(document, own_address(request) + settings.root()),
            "programs": [text for write in programs for text in write(document, left, run_line)] if is_run else [],
        }

    return router


def _exported(supervisor: Supervisor, settings: Settings, sees: Callable[[Run], bool]) -> dict[str, list[str]]:
    """Return visible exports with codes by model, named as in recipes; the newest first."""
    names: dict[str, list[str]] = {}
    for export in supervisor.store.finished_exports(EXPORTS_TO_OPEN):
        if export.format not in NOT_OPENED and sees(export) and exports.checkpoint_folder(settings, export).is_dir():
            names.setdefault(export.recipe["model"], []).append(exports.checkpoint_name(export))
    return names


def _runs_router(
    supervisor: Supervisor, settings: Settings, access: Access, planning: Planning, resolve: Resolver
) -> APIRouter:
    router = APIRouter(prefix="/runs", route_class=ApiRoute, tags=["runs"])
    store = supervisor.store

    @router.post("", status_code=201)
    async def submit(who: Who, holder: Holder, document: Document, lane: str = "batch") -> Response:
        """Queue a recipe, or each of a batch. Whatever can be refused is refused now: a queued run can work.

        Where the recipe has former names of fields, ``warnings`` of the answer say today's.
        """
        who.require_runner("POST /api/runs")

        def queue() -> Response:
            recipes = _recipes(document, settings)
            access.check_queue(who, holder, len(recipes))
            jobs = _jobs(recipes, who, access, settings, resolve)
            minutes = [job.plan.minutes for job in jobs.values()]
            seconds = [None if each is None else 60 * each for each in minutes]
            deprecated = {"warnings": sentences} if (sentences := deprecations(document)) else {}
            if list(jobs) == [""]:
                run = supervisor.submit(jobs[""].recipe, who.owner, lane, seconds[0])
                return JSONResponse(run.to_json() | deprecated, 201, headers={"Location": f"/api/runs/{run.id}"})
            batch = f"batch-{secrets.token_hex(3)}"
            runs = supervisor.submit_all([job.recipe for job in jobs.values()], who.owner, lane, batch, seconds)
            named = [run.to_json() | {"name": name} for name, run in zip(jobs, runs, strict=True)]
            return JSONResponse({"batch": batch, "runs": named} | deprecated, 201)

        return await planning.run(queue, holder)

    @router.get("/{run_id}")
    def get_run(who: Who, run_id: str) -> dict[str, Any]:
        """One run, its exports, and who could load it in which format."""
        run = access.run(who, run_id)
        stay, seen = supervisor.stay, access.as_seen(who)
        exported = [seen(export).to_json() | {"kept": stay(export)} for export in store.exports(run_id)]
        place = queue_place(run, store, access.sees(who)) if run.state is State.QUEUED else None
        more = {"exports": exported, "formats": exports.formats_of(run), "queue": place, "kept": stay(run)}
        evidence = JoinedDraws(store, access.question(who, Question())).of(run)
        waits = run.waits_for_room or (run.state is State.QUEUED and supervisor.full_disk() is not None)
        return seen(run).to_json() | more | {"waits_for_room": waits, "evidence": evidence}

    @router.get("/{run_id}/tuning")
    def get_tuning(request: Request, who: Who, run_id: str) -> Response:
        """Return what a tuning run has found out so far, drawn and in words; null until layers are compared."""
        run = access.run(who, run_id)
        if run.recipe.get("kind") != "tune":
            raise NotFound("the run does not tune", f"run {run_id}", "Give the id of a run with kind: tune.")
        standing = store.last(run_id, TuningStanding.type)
        return json_body(request, standing and tuning_view(standing.payload["tuning"], run.recipe))

    @router.get("/{run_id}/ladder")
    def get_ladder(request: Request, who: Who, run_id: str) -> Response:
        """Return what each step of a ladder is worth as far as it is measured, drawn and in words; null until the float
        model is measured."""
        run = access.run(who, run_id)
        if run.recipe.get("kind") != "ladder":
            raise NotFound("the run is not a ladder", f"run {run_id}", "Give the id of a run with kind: ladder.")
        standing = store.last(run_id, LadderStanding.type)
        return json_body(request, standing and ladder_view(standing.payload["ladder"], run.recipe))

    @router.get("/{run_id}/rounding")
    def get_rounding(request: Request, who: Who, run_id: str) -> Response:
        """Learned rounding with early stopping over its steps, of the blocks that are done, drawn and in words; null
        until one is."""
        run = access.run(who, run_id)
        if run.recipe.get("stopping", "none") == "none":
            raise NotFound("the run does not stop early", f"run {run_id}", "Give the id of a run with stopping: early.")
        events = store.latest(run_id, BlockRounded.type, ROUNDED)
        return json_body(request, rounding_view(event.payload for event in reversed(events)))

    @router.delete("/{run_id}", status_code=204)
    def delete_run(who: Who, run_id: str) -> Response:
        """Remove a run at rest with its study, log and exports. Finished layers stay: other runs may use them."""
        access.own_run(who, run_id, f"DELETE run {run_id}")
        supervisor.delete(run_id, who.owner)
        return Response(status_code=204)

    @router.post("/{run_id}/cancel", response_model=None)
    def cancel(who: Who, run_id: str) -> RunDocument:
        """Ask for the end of a run; what it finished is kept."""
        access.own_run(who, run_id, f"cancel run {run_id}")
        return supervisor.cancel(run_id, who.owner).to_json()

    @router.post("/{run_id}/continue", response_model=None)
    def resume(who: Who, run_id: str) -> RunDocument:
        """Queue a run again that was cancelled, interrupted or failed; it goes on from its finished layers."""
        access.own_run(who, run_id, f"continue run {run_id}")
        return supervisor.resume(run_id).to_json()

    @router.post("/{run_id}/export")
    async def export(who: Who, holder: Holder, run_id: str, checkpoint_format: ExportFormat = "plain") -> Response:
        """Queue the writing of a finished run's model to files; asking again gives the same export."""

        def queue() -> Response:
            parent = access.own_run(who, run_id, f"export run {run_id}")
            exports.check_exportable(parent, checkpoint_format)
            plan = resolve(Recipe.parse(parent.recipe), settings).plan
            size = exports.size_at_most(checkpoint_format, before=plan.bytes_before or 0, after=plan.bytes_after or 0)
            access.check_exports(who, size)
            made, is_queued = supervisor.export(run_id, checkpoint_format, size, who.owner)
            headers = {"Location": f"/api/runs/{made.id}"}
            return JSONResponse(made.to_json(), 201 if is_queued else 200, headers=headers)

        return await planning.run(queue, holder)

    @router.post("/{run_id}/link", status_code=201)
    def make_link(who: Who, run_id: str, days: Days = DAYS) -> dict[str, str]:
        """Return a new share link: anyone who has it sees the run and its study, without owner, note and tags, for so
        many ``days`` or until the links of the run are ended. A run has 20 at a time at most."""
        return access.share(who, "run", run_id, days)

    @router.delete("/{run_id}/link", status_code=204)
    def end_links(who: Who, run_id: str) -> Response:
        """End all share links of a run and of its study."""
        access.end_links(who, "run", run_id)
        return Response(status_code=204)

    @router.get("/{run_id}/checkpoint")
    def get_checkpoint(who: Who, run_id: str, checkpoint_format: ExportFormat = "plain") -> Response:
        """Return the exported model as an uncompressed tar archive that unpacks into one folder."""
        access.own_run(who, run_id, f"checkpoint of run {run_id}")
        folder = exports.finished_checkpoint(store, settings, run_id, checkpoint_format)
        length, parts = exports.tar_of(folder)
        headers = {
            "Cache-Control": "no-store",
            "Content-Length": str(length),
            "Content-Disposition": f'attachment; filename="{folder.name}.tar"',
        }
        return StreamingResponse(parts, media_type="application/x-tar", headers=headers)

    @router.get("/{run_id}/log", response_class=PlainTextResponse)
    def get_log(who: Who, run_id: str) -> str:
        """Return the last part of what the worker printed; empty before it starts. Paths and secrets of this host are
        left out of it."""
        access.own_run(who, run_id, f"log of run {run_id}")
        return without_secrets(without_paths(_tail(log_path(settings, run_id)), settings.folders()))

    return router


def _streams_router(supervisor: Supervisor, access: Access) -> APIRouter:
    router = APIRouter(route_class=ApiRoute, tags=["events"])
    store: Store = supervisor.store

    @router.get("/runs/{run_id}/events")
    async def run_events(
        request: Request,
        who: Who,
        run_id: str,
        after: After = None,
        limit: EventLimit = EVENTS,
        last_event_id: LastEventId = None,
    ) -> Response:
        """Return what a run says, from the beginning or after a number: a stream until it is at rest, or a list.

        A list has at most ``limit`` events; ``next`` is the ``after`` of the following ones, or null where there are
        none now. A browser that comes back to a run with nothing more to say gets 204, which tells it to stay away.
        """
        await run_in_threadpool(access.run, who, run_id)
        position = last_event_id if last_event_id is not None else after or 0
        accept = request.headers.get("accept", "")
        if "application/json" in accept and "text/event-stream" not in accept:
            events, _ = await run_in_threadpool(store.tail, run_id, position, limit, LIST_BYTES)
            more = bool(events) and (await run_in_threadpool(store.tail, run_id, events[-1].seq, 1))[0]
            following = events[-1].seq if more else None
            return JSONResponse({"events": [event.to_json() for event in events], "next": following})
        events, complete = await run_in_threadpool(store.tail, run_id, position, 1)
        if complete and not events:
            return Response(status_code=204)
        stream = sse.run_events(store, supervisor.bell, run_id, position, lambda: access.sees(who))
        return EventSourceResponse(stream, headers=sse.STREAM_HEADERS)

    @router.get("/events")
    async def all_events(who: Who, after: After = None, last_event_id: LastEventId = None) -> Response:
        """Stream changes of the runs that one may see, from a revision on; without one, from now on."""
        position = last_event_id if last_event_id is not None else after
        if position is None:
            position = await run_in_threadpool(store.revision)
        stream = sse.run_changes(store, supervisor.bell, position, lambda: access.sees(who), access.as_seen(who))
        return EventSourceResponse(stream, headers=sse.STREAM_HEADERS)

    return router


def _recipes(document: dict[str, Any], settings: Settings) -> dict[str, Recipe]:
    """Return the recipes of a document by name, see ``expanded``. Raise ``QueueFull`` for a batch that never fits."""
    count = math.prod(len(values) for values in axes(document).values())
    if count > settings.max_queued:
        raise QueueFull(
            f"the lists make {count} runs, and {settings.max_queued} may wait here",
            "queue",
            "Send smaller batches one after the other, or raise SARQC_MAX_QUEUED.",
        )
    return expanded(document)


def _jobs(
    recipes: dict[str, Recipe], who: Visitor, access: Access, settings: Settings, resolve: Resolver
) -> dict[str, Job]:
    """Return the job of each recipe for a visitor, by name. Raises the error of the first recipe that is refused."""
    jobs = {}
    for name, recipe in recipes.items():
        try:
            jobs[name] = resolve(admit(recipe, who, access, settings), settings)
        except SarqcError as error:
            raise (error.at(name) if name else error) from None
    return jobs


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
