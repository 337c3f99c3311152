"""Lectures: a question on the lecturer's screen, and phones that guess at its λ.

A lecture lives in the memory of this process alone: it ends with the app, by its lecturer, or after hours without a
change by its lecturer, and leaves nothing. Its code lets a phone join it and opens nothing else; its secret, which only
the lecturer has, moves and ends it. Nobody is asked for a name: a phone is a random number that it made for itself.

Everything here is called from the event loop of the app, so nothing needs a lock. Times are given, not looked up.
"""

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field

from sarqc.errors import Busy, Conflict, Forbidden, NotFound, Refused, TooMany
from sarqc.jobs.bell import Bell

PHONES = 200  # of a lecture
REQUESTS = 20 * PHONES  # a minute, of the phones of a lecture; more count as those of their addresses
LECTURES, LECTURES_EACH = 8, 2  # at a time: on this host, and of one holder, see ``holder_of``
IDLE_SECONDS = 3 * 3600.0  # without a change by the lecturer
GUESS_SECONDS = 0.5  # from one guess of a phone to the next
VALUES, STOPS = 64, 32  # of λ at a stop, and stops of a lecture
ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # of codes: none looks like another
CODE_PARTS, CODE_LETTERS = 3, 4  # 59 bits

Phase = Literal["waiting", "open", "closed", "revealed", "ended"]
ORDER: tuple[Phase, ...] = ("waiting", "open", "closed", "revealed")
Lambda = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Position = Annotated[int, Field(ge=0, lt=VALUES, strict=True)]


class LectureWish(BaseModel):
    """The state of the lecturer's page; a stop of null asks nothing."""

    model_config = ConfigDict(extra="forbid")
    stop: Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")] | None
    lams: Annotated[list[Lambda], Field(max_length=VALUES)]
    phase: Literal["open", "closed", "revealed"]
    best: Position | None  # of the answer, where it is shown
    band: tuple[Position, Position] | None


class PhoneGuess(BaseModel):
    """A position among the values of λ at a stop, and the phone that says it."""

    model_config = ConfigDict(extra="forbid")
    phone: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    stop: Annotated[str, Field(max_length=32)]
    guess: Position


class HallState(TypedDict):
    """A lecture as its lecturer hears it."""

    phase: Phase
    stop: str | None
    phones: int  # that listen now
    guesses: int
    counts: list[int]  # of guesses by position


class PhoneState(TypedDict):
    """A lecture as its phones hear it: of the others' guesses nothing before the answer is shown."""

    phase: Phase
    stop: str | None
    lams: list[float]
    counts: list[int] | None
    best: int | None
    band: tuple[int, int] | None


class LectureBegun(TypedDict):
    """A lecture as its lecturer's page is told of it once."""

    code: str
    secret: str
    address: str  # that phones open
    qr: list[str]  # rows of its code to scan: “1” is dark


@dataclass
class _Asked:
    """A question at a stop, with the guesses by phone."""

    lams: tuple[float, ...]
    phase: Phase = "open"
    best: int | None = None
    band: tuple[int, int] | None = None
    guesses: dict[str, int] = field(default_factory=dict)

    def counts(self) -> list[int]:
        counts = [0] * len(self.lams)
        for position in self.guesses.values():
            counts[position] += 1
        return counts


class Lecture:
    """One lecture. ``ring`` of the bell tells its listeners of changes; a phone listens to a topic of its own."""

    def __init__(self, code: str, secret: str, holder: str, now: float, bell: Bell) -> None:
        self.code, self.holder, self.touched, self.is_over = code, holder, now, False
        self._digest, self._bell = sha256(secret.encode()).digest(), bell
        self._asked: dict[str, _Asked] = {}
        self._stop: str | None = None
        self._listening: dict[str, int] = {}  # the number of the stream that a phone has open
        self._streams = 0
        self._last_guess: dict[str, float] = {}

    @property
    def hall_topic(self) -> str:
        """Topic of the lecturer on the bell."""
        return f"lecture {self.code}"

    def phone_topic(self, phone: str) -> str:
        """Return a phone's topic on the bell."""
        return f"lecture {self.code} {phone}"

    def check(self, secret: str) -> None:
        """Raise ``Forbidden`` for anybody but the lecturer."""
        if not hmac.compare_digest(self._digest, sha256(secret.encode("utf-8", "replace")).digest()):
            raise Forbidden("only its lecturer may do this", "lecture", "Begin a lecture of your own.")

    # The lecturer.

    def tell(self, wish: LectureWish, now: float) -> None:
        """Update the lecture to what the lecturer's page shows.

        A stop that was there before keeps its guesses and never goes back to an earlier phase. Raises ``Refused`` for
        values or positions that make no sense, ``Conflict`` if the lecture is over.
        """
        if self.is_over:
            raise Conflict("the lecture is over", "lecture", "Begin another one.")
        if wish.stop is not None:
            self._ask(wish.stop, wish)
        self._stop, self.touched = wish.stop, now
        self._bell.ring(self.hall_topic, *map(self.phone_topic, self._listening))

    def _ask(self, stop: str, wish: LectureWish) -> None:
        lams = tuple(wish.lams)
        positions = [at for at in (wish.best, *(wish.band or ())) if at is not None]
        if not lams or any(low >= high for low, high in pairwise(lams)):
            raise Refused("the values of λ do not grow", "lams", "Give the values of the figure’s axis.")
        if any(at >= len(lams) for at in positions):
            raise Refused("the answer is not among the values of λ", "best, band", "Give positions among lams.")
        if wish.phase == "revealed" and wish.best is None:
            raise Refused("the answer is missing", "best", "Give its position among lams.")
        asked = self._asked.get(stop)
        if asked is None or asked.lams != lams:
            if asked is None and len(self._asked) >= STOPS:
                raise Refused(f"a lecture has at most {STOPS} stops", "stop", "End this lecture and begin another.")
            asked = self._asked[stop] = _Asked(lams)
        asked.phase = max(asked.phase, wish.phase, key=ORDER.index)
        if wish.best is not None and wish.phase == "revealed":
            asked.best, asked.band = wish.best, wish.band

    def end(self) -> None:
        """Forget everything, and notify listeners."""
        topics = [self.hall_topic, *map(self.phone_topic, self._listening)]
        self.is_over, self._stop = True, None
        self._asked.clear()
        self._last_guess.clear()
        self._bell.ring(*topics)

    def hall_state(self) -> HallState:
        """Return the state for the lecturer."""
        asked = self._current()
        return {
            "phase": self._phase(),
            "stop": self._stop,
            "phones": len(self._listening),
            "guesses": len(asked.guesses),
            "counts": asked.counts(),
        }

    # Phones.

    @contextmanager
    def joined(self, phone: str) -> Iterator[int]:
        """Add a phone that listens, whose former stream ends; give the number of the stream, see ``is_heard``.

        Raises ``Busy`` where a lecture may have no more phones, ``NotFound`` if it is over.
        """
        self._admit(phone)
        self._streams += 1
        number = self._listening[phone] = self._streams
        self._bell.ring(self.hall_topic, self.phone_topic(phone))
        try:
            yield number
        finally:
            if self._listening.get(phone) == number:
                del self._listening[phone]
            self._bell.ring(self.hall_topic)

    def is_heard(self, phone: str, number: int) -> bool:
        """Return whether a stream is the phone's last one."""
        return self._listening.get(phone) == number

    def guess(self, sent: PhoneGuess, now: float) -> None:
        """Store a guess in place of the phone's former one.

        Raises ``Conflict`` for another stop and where guesses are closed, ``Refused`` for an invalid position,
        ``TooMany`` for a phone that has just guessed, and as ``joined``.
        """
        self._admit(sent.phone)
        asked = self._current()
        if sent.stop != self._stop or asked.phase != "open":
            raise Conflict("guesses are closed", "guess", "Look at the screen.")
        if sent.guess >= len(asked.lams):
            raise Refused("there is no such value of λ", "guess", f"Give a position from 0 to {len(asked.lams) - 1}.")
        if now - self._last_guess.get(sent.phone, -GUESS_SECONDS) < GUESS_SECONDS:
            raise TooMany("this phone has guessed just now", "guess", "Wait a second.")
        self._last_guess[sent.phone] = now
        asked.guesses[sent.phone] = sent.guess
        self._bell.ring(self.hall_topic)

    def phone_state(self) -> PhoneState:
        """Return the state for a phone."""
        asked = self._current()
        is_revealed = asked.phase == "revealed"
        return {
            "phase": self._phase(),
            "stop": self._stop,
            "lams": list(asked.lams),
            "counts": asked.counts() if is_revealed else None,
            "best": asked.best if is_revealed else None,
            "band": asked.band if is_revealed else None,
        }

    def _admit(self, phone: str) -> None:
        """Admit a new phone. A phone that left without a guess has freed its place."""
        if self.is_over:
            raise _no_lecture()
        known = {*self._listening, *self._last_guess}
        if phone not in known and len(known) >= PHONES:
            raise Busy(f"{PHONES} phones have joined, as many as a lecture may have", "lecture", "Look at the screen.")

    def _current(self) -> _Asked:
        """Return the question at the present stop; one without values where there is none."""
        return _Asked(()) if self._stop is None else self._asked[self._stop]

    def _phase(self) -> Phase:
        return "ended" if self.is_over else "waiting" if self._stop is None else self._current().phase


class Lectures:
    """The lectures of this process by their codes."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._lectures: dict[str, Lecture] = {}

    def begin(self, code: str, holder: str, now: float) -> tuple[Lecture, str]:
        """Return a new lecture with a code of ``new_code``, and its secret.

        Raises ``Busy`` where this host, or this person, has as many as it may have.
        """
        self.end_idle(now)
        own = sum(lecture.holder == holder for lecture in self._lectures.values())
        if own >= LECTURES_EACH or len(self._lectures) >= LECTURES:
            whose = f"you have {own}" if own >= LECTURES_EACH else f"this host has {LECTURES}"
            raise Busy(f"{whose} lectures, and more may not run at once", "lectures", "End one that is over.")
        secret = secrets.token_urlsafe(24)
        lecture = self._lectures[code] = Lecture(code, secret, holder, now, self._bell)
        return lecture, secret

    def __contains__(self, code: object) -> bool:
        return code in self._lectures

    def of(self, code: str) -> Lecture:
        """Return the lecture with a code. Raise ``NotFound``."""
        lecture = self._lectures.get(code)
        if lecture is None:
            raise _no_lecture()
        return lecture

    def of_lecturer(self, code: str, secret: str) -> Lecture:
        """Return the same for its lecturer. Raise ``NotFound`` and ``Forbidden``."""
        lecture = self.of(code)
        lecture.check(secret)
        return lecture

    def end(self, lecture: Lecture) -> None:
        """End a lecture and forget it."""
        self._lectures.pop(lecture.code, None)
        lecture.end()

    def end_idle(self, now: float) -> float | None:
        """End lectures that are no longer led; return the seconds until the next may be idle, None without lectures."""
        for lecture in list(self._lectures.values()):
            if now - lecture.touched >= IDLE_SECONDS:
                self.end(lecture)
        return min((lecture.touched + IDLE_SECONDS - now for lecture in self._lectures.values()), default=None)

    def __len__(self) -> int:
        return len(self._lectures)


def new_code() -> str:
    """Return a code that can't be guessed."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(CODE_LETTERS)) for _ in range(CODE_PARTS))


def _no_lecture() -> NotFound:
    return NotFound("there is no such lecture", "lecture", "It may be over; scan the code on the screen again.")
