"""Run: a recipe with an id, an owner and a state; the states, and which may follow which.

An export is a run too: it does the recipe of its parent again, from the finished layers, and writes the model to files.

queued <─> running ──> finished          back to queued: it steps aside for a run that takes seconds
  ^  │        ├──────> failed ───────┐
  │  │        ├──────> interrupted ──┤  the worker was lost; waits for a person
  │  │        └> cancelling          │
  │  └────> cancelled <─┘            │  (cancelling may still end as finished or failed)
  └──────────────────────────────────┘  continue: finished layers are kept
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, TypedDict, cast

from sarqc.documents import EvidenceDocument, Tuned, test_text
from sarqc.errors import NotFound
from sarqc.jobs.tuned import evidence_of, tuned

LANES = ("preview", "batch")


class State(StrEnum):
    """States of a run. ``interrupted`` waits for a person; ``queued`` goes on by itself."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


# What people read; a filter takes both.
STATE_WORDS: Mapping[State, str] = {state: state.value for state in State} | {State.QUEUED: "waiting"}
AT_REST = frozenset({State.CANCELLED, State.INTERRUPTED, State.FAILED, State.FINISHED})

ALLOWED: Mapping[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.RUNNING, State.CANCELLED}),
    State.RUNNING: frozenset({State.CANCELLING, State.FINISHED, State.FAILED, State.INTERRUPTED}),
    State.CANCELLING: frozenset({State.CANCELLED, State.FINISHED, State.FAILED}),
    State.CANCELLED: frozenset({State.QUEUED}),
    State.INTERRUPTED: frozenset({State.QUEUED}),
    State.FAILED: frozenset({State.QUEUED}),
    State.FINISHED: frozenset(),
}


class Progress(TypedDict):
    """Linears solved in this attempt, of all."""

    done: int
    total: int


class ErrorDocument(TypedDict):
    """An error in the parts in which everybody reads it."""

    kind: str
    what: str
    where: str
    remedy: str


class RunDocument(TypedDict):
    """The public form of a run: times in ISO 8601 (UTC), progress in one object, no process id."""

    id: str
    state: State
    recipe: dict[str, Any]
    fingerprint: str
    owner: str
    lane: str
    attempt: int
    created: str
    queued: str
    started: str | None
    ended: str | None
    progress: Progress
    device: str | None
    study_id: str | None
    summary: dict[str, Any] | None
    tuned: Tuned | None
    evidence: EvidenceDocument | None  # beside GPTQ 1 %
    test: str  # the test text, with all that perplexities depend on; empty without one
    error: ErrorDocument | None
    revision: int
    batch: str | None
    parent: str | None
    format: str | None
    bytes: int | None
    name: str
    note: str
    tags: list[str]
    stepped_aside: bool
    waits_for_room: bool


@dataclass(frozen=True)
class Run:
    """A row of the store: a recipe with its owner, its state and its progress. Times are seconds since 1970."""

    id: str
    recipe: dict[str, Any]
    fingerprint: str
    owner: str
    lane: str
    state: State
    attempt: int  # 1 for the first; each time it is queued again counts, but where it stepped aside
    created: float
    queued: float  # since when it waits for a device; what the order of the queue goes by
    started: float | None
    ended: float | None
    done: int  # linears solved in this attempt, those found on disk included
    total: int
    device: str | None
    pid: int | None
    study_id: str | None
    summary: dict[str, Any] | None
    error: ErrorDocument | None
    revision: int
    batch: str | None = None  # shared by runs that were sent together
    parent: str | None = None  # of an export: the run that it writes to files
    format: str | None = None  # of an export: of the files
    bytes: int | None = None  # of an export: what the files take, expected at first
    name: str = ""  # name, note and tags are what people write on it
    note: str = ""
    tags: tuple[str, ...] = ()
    seconds: float | None = None  # that it was planned to take when it was sent; None where nobody planned
    stepped_aside: bool = False  # it waits because it made room for a run that takes seconds, and is the next to go on
    waits_for_room: bool = False  # it met a full disk, and goes on by itself once there is room

    @property
    def at_rest(self) -> bool:
        return self.state in AT_REST

    @property
    def is_listed(self) -> bool:
        """True if lists show it: not an export, nor a preview of one layer before somebody gives it a name."""
        is_passing = self.lane == "preview" and bool(self.recipe.get("layer")) and not self.name
        return self.parent is None and not is_passing

    @property
    def kind(self) -> Literal["run", "export"]:
        return "run" if self.parent is None else "export"

    @property
    def is_annotated(self) -> bool:
        """True if somebody has written on it."""
        return bool(self.name or self.note or self.tags)

    def to_json(self) -> RunDocument:
        """Return the body of a REST answer."""
        evidence = evidence_of(self.summary)
        own = vars(self) | {
            "progress": {"done": self.done, "total": self.total},
            "tuned": tuned(self.summary),
            "evidence": None if evidence is None else evidence.to_json(),
            "test": test_text((self.summary or {}).get("protocol")),
            "tags": list(self.tags),
        }
        for name in ("created", "queued", "started", "ended"):
            own[name] = None if own[name] is None else iso_time(own[name])
        document: Any = {name: own[name] for name in RunDocument.__annotations__}
        return cast(RunDocument, document)


@dataclass(frozen=True)
class Removed:
    """A deleted run, for listeners to the changes."""

    id: str
    revision: int
    owner: str
    parent: str | None = None  # a link to its run, which would show it, is gone with it


@dataclass(frozen=True)
class StoredEvent:
    """One line of a run's log. ``seq`` counts from 1 within the run, over all its attempts."""

    seq: int
    at: float
    payload: dict[str, Any]  # Event.to_json()

    def to_json(self) -> dict[str, Any]:
        return {"seq": self.seq, "at": iso_time(self.at), **self.payload}


def iso_time(seconds: float) -> str:
    """Return a time stamp (seconds since 1970) as ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def no_run(run_id: str) -> NotFound:
    """Return the error for a run that there is not, or that is not shown to who asks."""
    return NotFound(f"no run “{run_id}”", "runs", "It may have been deleted; Runs lists what there is.")


def advice(state: State) -> str:
    """Return the remedies for a run in this state."""
    return {
        State.QUEUED: "It waits for a device; cancel it or let it start.",
        State.RUNNING: "Cancel it, or wait for its end.",
        State.CANCELLING: "It is about to end; try again in a moment.",
        State.FINISHED: "It is complete; submit its recipe again for a new run.",
    }.get(state, "It has ended; continue it or delete it.")
