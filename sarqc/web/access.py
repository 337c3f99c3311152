"""Rights to see and to change.

On a private host everybody may do everything. On a public one a run, with its study, exports and log, belongs to the
visitor who queued it, an uploaded study or text to its uploader. Studies that came with the app belong to everybody,
those of the command line to the operator. A share link shows one run or one study until it ends, without the notes of
its owner. What a visitor may not see is not there for them: 404.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query, Request

from sarqc.errors import Forbidden, NoRoom, NotFound, QueueFull
from sarqc.jobs.audit import Audit
from sarqc.jobs.links import DAYS_AT_MOST, Kind, Links
from sarqc.jobs.listing import Question
from sarqc.jobs.run import Removed, Run, iso_time, no_run
from sarqc.jobs.store import Store
from sarqc.jobs.uploads import Uploads
from sarqc.plain import gib
from sarqc.settings import Settings
from sarqc.study.library import Library, Origin
from sarqc.web.profile import is_private
from sarqc.web.visitor import GUEST, Visitor

HOLDERS = 4096  # of whom it is remembered under which names they have queued runs
Days = Annotated[int, Query(ge=1, le=DAYS_AT_MOST)]  # that a share link lasts


def visitor_of(request: Request) -> Visitor:
    """Return the visitor whom the gate has identified."""
    visitor: Visitor = request.state.visitor
    return visitor


async def _visitor(request: Request) -> Visitor:
    return visitor_of(request)


Who = Annotated[Visitor, Depends(_visitor)]  # as a parameter of a route


async def holder_of(request: Request) -> str:
    """Return the holder of a share of the host: a person by name; a stranger, who may have any number of names, by
    address."""
    who = visitor_of(request)
    is_stranger = who.owner.startswith(GUEST) and who.role != "operator"  # as is everybody on a private host
    return request.client.host if is_stranger and request.client else who.owner


Holder = Annotated[str, Depends(holder_of)]


class Access:
    """The rules, over the store of runs and the library of studies."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.store, self.links, self.audit = store, Links(store), Audit(store)
        self.studies, self.texts = Uploads(store, "study"), Uploads(store, "text")
        self.library = Library(settings, store.owners)
        self._private, self._each, self._queued = is_private(settings), settings.max_queued_each, settings.max_queued
        self._names: dict[str, set[str]] = {}  # under which a holder has queued runs
        self._exports_each, self._root = settings.export_gib_each, settings.root()

    def sees_everything(self, visitor: Visitor) -> bool:
        """Return whether a visitor may see everything."""
        return self._private or visitor.role == "operator"

    # Runs.

    def sees(self, visitor: Visitor) -> Callable[[Run | Removed], bool]:
        """Return the test of runs, present or removed, that a visitor may see now."""
        if self.sees_everything(visitor):
            return lambda run: True
        shown = self._shown(visitor, "run")
        return lambda run: run.owner == visitor.owner or run.id in shown or run.parent in shown

    def as_seen(self, visitor: Visitor) -> Callable[[Run], Run]:
        """Return the view of a run for a visitor: owner, note and tags of others' runs are left out."""
        if self.sees_everything(visitor):
            return lambda run: run
        return lambda run: run if run.owner == visitor.owner else replace(run, owner="", note="", tags=())

    def linked_runs(self, visitor: Visitor) -> list[Run] | None:
        """Return the runs shared with a visitor who has nothing else here, and may know of no model or text beside
        theirs; None for everybody else."""
        if self.sees_everything(visitor) or visitor.signed_in or visitor.role != "viewer":
            return None
        return [self.store.get(run_id) for run_id in self._shown(visitor, "run")]

    def run(self, visitor: Visitor, run_id: str) -> Run:
        """Return a run that a visitor may see. Raise ``NotFound`` for any other."""
        run = self.store.get(run_id)
        if not self.sees(visitor)(run):
            raise no_run(run_id)
        return run

    def own_run(self, visitor: Visitor, run_id: str, where: str) -> Run:
        """Return a run that a visitor may change. Raise ``NotFound``, or ``Forbidden`` for one that is only shared with
        them."""
        visitor.require_runner(where)
        run = self.run(visitor, run_id)
        if not self.sees_everything(visitor) and run.owner != visitor.owner:
            raise Forbidden("the run belongs to somebody else", where, "Submit its recipe as a run of your own.")
        return run

    def question(self, visitor: Visitor, question: Question) -> Question:
        """Return the question, restricted to runs that a visitor may see; a filter, which reads owners and notes too,
        finds their own alone."""
        if self.sees_everything(visitor):
            return question
        also: frozenset[str] = frozenset() if question.text else self._shown(visitor, "run")
        return replace(question, of=visitor.owner, also=also)

    def check_queue(self, visitor: Visitor, holder: str, more: int) -> None:
        """Raise ``QueueFull`` where one person, or the strangers at one address, would have more runs waiting than
        they may."""
        if self._private:
            return
        waiting = {name: self.store.waiting_of(name) for name in self._names.pop(holder, set()) | {visitor.owner}}
        self._names[holder] = {name for name, count in waiting.items() if count} | {visitor.owner}
        if len(self._names) > HOLDERS:
            self._names.clear()
        shared_limit = max(self._each, self._queued // 2)
        shares = (
            ("of your runs are waiting, and anybody", waiting[visitor.owner], self._each),
            ("runs of strangers at your address are waiting, and together they", sum(waiting.values()), shared_limit),
        )
        for what, count, most in shares:
            if count + more > most:
                remedy = "Wait until some have started, or cancel some."
                raise QueueFull(f"{count} {what} may have {most}", "queue", remedy)

    def check_exports(self, visitor: Visitor, size: int) -> None:
        """Raise ``NoRoom`` where one person's exports would take more of the disk than anybody's may."""
        if self._private:
            return
        taken = sum(self.store.exported_bytes(visitor.owner))
        if taken + size > self._exports_each * 2**30:
            raise NoRoom(
                f"your exports take {gib(taken)}, this one {gib(size)} more, and anybody's may take "
                f"{self._exports_each:g} GiB",
                "exports",
                "Delete one that you do not need any more.",
            )

    # Studies.

    def studies_seen(self, visitor: Visitor, origins: Mapping[str, Origin]) -> dict[str, bool]:
        """Return, of some studies with their origins, those that a visitor may see; True for those that they may share
        and remove."""
        changes = visitor.role != "viewer"
        if self.sees_everything(visitor):
            return dict.fromkeys(origins, changes)
        of_runs, brought = self.store.owners(origins), {upload.id for upload in self.studies.of(visitor.owner)}
        shown = {kind: self._shown(visitor, kind) for kind in ("study", "run")}
        seen = {}
        for study_id, origin in origins.items():
            has_brought, has_run = study_id in brought, of_runs.get(study_id) == visitor.owner
            sees = origin == "shipped" or study_id in shown["study"] or (origin == "uploaded" and has_brought)
            if sees or (origin == "run" and (has_run or study_id in shown["run"])):
                seen[study_id] = changes and (has_run if study_id in of_runs else has_brought)
        return seen

    def study(self, visitor: Visitor, study_id: str) -> str:
        """Return the id of a study that a visitor may see. Raise ``NotFound`` for any other."""
        self._may_change(visitor, study_id)
        return study_id

    def own_study(self, visitor: Visitor, study_id: str, where: str) -> None:
        """Raise as ``own_run`` for a study that a visitor may not share or remove."""
        visitor.require_runner(where)
        if not self._may_change(visitor, study_id):
            raise Forbidden("the study belongs to somebody else", where, "Only its owner may do this.")

    # Links.

    def share(self, visitor: Visitor, kind: Kind, target: str, days: int) -> dict[str, str]:
        """Return the address and the end of a new link to a run or study. Raises as ``own_run``."""
        owner = self._owner(visitor, kind, target)
        secret, ends = self.links.make(kind, target, owner or visitor.owner, days)
        self.audit.note(visitor.owner, "share", kind, target, owner, f"until {iso_time(ends)}")
        return {"address": f"{self._root}/share/{secret}", "ends": iso_time(ends)}

    def end_links(self, visitor: Visitor, kind: Kind, target: str) -> None:
        """End all links to a run or study. Raises as ``own_run``."""
        owner = self._owner(visitor, kind, target)
        self.links.revoke(target)
        self.audit.note(visitor.owner, "end links of", kind, target, owner)

    def _owner(self, visitor: Visitor, kind: Kind, target: str) -> str:
        """Return the owner of a run that a visitor may share; of a study, which may have several, nobody."""
        where = f"share {kind} {target}"
        if kind == "run":
            return self.own_run(visitor, target, where).owner
        self.own_study(visitor, target, where)
        return ""

    def _may_change(self, visitor: Visitor, study_id: str) -> bool:
        """Return whether a visitor may share and remove a study. Raise ``NotFound`` for a hidden one."""
        seen = self.studies_seen(visitor, {study_id: self.library.origin(self.library.folder(study_id))})
        if study_id not in seen:
            raise NotFound(f"no study “{study_id}”", "studies", "GET /api/studies lists what there is.")
        return seen[study_id]

    def _shown(self, visitor: Visitor, kind: str) -> frozenset[str]:
        return frozenset(link.target for link in self.links.behind(visitor.links) if link.kind == kind)
