"""Every error a person can meet says what is wrong, where, and what to do about it.

    SarqcError
    ├── Refused            bad input, seen before any work           exit 2   HTTP 422
    │   ├── NotFound       no such run, study, model, file           exit 2   HTTP 404
    │   ├── Unreachable    a hub or mirror that does not answer      exit 2   HTTP 503
    │   ├── Conflict       not possible in the state of the run      exit 2   HTTP 409
    │   ├── QueueFull      as many runs wait as the host accepts     exit 2   HTTP 429
    │   ├── Busy           somebody else holds what is needed        exit 2   HTTP 503
    │   ├── NoRoom         the disk, or the share for exports, full  exit 2   HTTP 507
    │   ├── Unwritable     a disk that is read-only or fails         exit 2   HTTP 503
    │   ├── TooLarge       more bytes than the host takes            exit 2   HTTP 413
    │   ├── TooLong        an address that no page here has          exit 2   HTTP 414
    │   ├── Forbidden      a foreign origin, or a role too low       exit 2   HTTP 403
    │   ├── NotSignedIn    nobody is known to have asked             exit 2   HTTP 401
    │   ├── NotAllowed     a method that nothing here takes          exit 2   HTTP 405
    │   ├── Misdirected    a request under a foreign host name       exit 2   HTTP 421
    │   └── TooMany        more requests than one address may send   exit 2   HTTP 429
    ├── NumericalError     NaN or infinity met in the mathematics    exit 1   HTTP 500
    ├── OutOfMemory          the device has too little memory          exit 1   HTTP 500
    ├── Damaged            a file of this host that can't be read    exit 1   HTTP 500
    └── WorkerLost         the process doing the work is gone        exit 1   HTTP 500

The page, the REST interface and the command line all print the same three parts.
"""

from __future__ import annotations

import errno
import os
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Fix:
    """A change of a recipe that would mend it."""

    words: str  # on a button: “Use groups of 32”
    values: dict[str, Any]  # under the public names of the fields; None: left empty


class SarqcError(Exception):
    """An error with its place and remedy: three plain sentences or phrases without markup.

    ``field`` is the public name of the recipe's field that is wrong, ``fixes`` are what would mend it.
    """

    kind = "error"
    exit_code = 1
    http_status = 500
    field: str = ""
    fixes: tuple[Fix, ...] = ()

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        ends = not self.remedy or head.endswith((".", "!", "?", ":"))
        return f"{head}{'' if ends else '.'} {self.remedy}".strip()

    def about(self, field: str, *fixes: Fix) -> Self:
        """Return the same error, with the field of a recipe that it is about and what would mend it."""
        self.field, self.fixes = field, fixes
        return self

    def parts(self) -> dict[str, str]:
        """Return kind, what, where and remedy, as a failed run stores them."""
        return {"kind": self.kind, "what": self.what, "where": self.where, "remedy": self.remedy}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON body of an error: its parts, and the field with its fixes if it is about one."""
        body: dict[str, Any] = {**self.parts()}
        if self.field:
            body |= {"field": self.field, "fixes": [asdict(fix) for fix in self.fixes]}
        return body

    def at(self, where: str) -> SarqcError:
        """Return the same error seen from one floor up, with ``where`` put before the place it already names."""
        inner = f"{where}: {self.where}" if self.where else where
        return type(self)(self.what, inner, self.remedy).about(self.field, *self.fixes)


class Refused(SarqcError):
    """Input that is turned down before any work was done."""

    kind = "refused"
    exit_code = 2
    http_status = 422


class NotFound(Refused):
    """A name that leads nowhere."""

    kind = "not_found"
    http_status = 404


class Unreachable(Refused):
    """A hub or mirror that does not answer."""

    kind = "unreachable"
    http_status = 503


class Conflict(Refused):
    """The run is in a state in which this can't be done."""

    kind = "conflict"
    http_status = 409


class QueueFull(Refused):
    """As many runs wait as this host accepts."""

    http_status = 429


class Busy(Refused):
    """Somebody else holds what is needed, for a moment."""

    kind = "busy"
    http_status = 503


class NoRoom(Refused):
    """The disk, or what exports may take of it, is full."""

    http_status = 507


class Unwritable(Refused):
    """A disk that is read-only or fails."""

    kind = "unwritable"
    http_status = 503


class TooLarge(Refused):
    """More bytes than this host takes."""

    http_status = 413


class TooLong(Refused):
    """An address that no page here has."""

    kind = "too_long"
    http_status = 414


class Forbidden(Refused):
    """The request came from somewhere it must not come from."""

    kind = "forbidden"
    http_status = 403


class NotSignedIn(Refused):
    """Nobody is known to have asked."""

    kind = "not_signed_in"
    http_status = 401


class NotAllowed(Refused):
    """A method that nothing at this address takes."""

    kind = "not_allowed"
    http_status = 405


class Misdirected(Refused):
    """A request under a host name that is not this host's."""

    kind = "misdirected"
    http_status = 421


class TooMany(Refused):
    """More requests than this host takes from one address."""

    kind = "too_many"
    http_status = 429


class NumericalError(SarqcError):
    """A NaN, an infinity, or a matrix that cannot be what it must be."""

    kind = "numerical"


class OutOfMemory(SarqcError):
    """A device without room for what a run has to hold at once."""

    kind = "out_of_memory"


class Damaged(SarqcError):
    """A file of this host that is not what was written."""

    kind = "damaged"


class WorkerLost(SarqcError):
    """The process that did the work ended without saying so."""

    kind = "worker_lost"


def in_recipe(field: str) -> str:
    """Return a field of a recipe as the place of an error."""
    return f"recipe, {field}"


def refused_for(field: str, what: str, remedy: str, *fixes: Fix) -> Refused:
    """Return a refusal of a field of a recipe, with what would mend it."""
    return Refused(what, in_recipe(field), remedy).about(field, *fixes)


def disk_full() -> NoRoom:
    """Return the error that the disk with the state folder is full."""
    remedy = "Delete runs, exports or studies you no longer need, or free some disk space."
    return NoRoom("the disk is full", "state folder", remedy)


def disk_fails(how: object) -> Unwritable:
    """Return the error of the disk with the state folder where it is read-only or fails."""
    remedy = "See the host's log of its disks; the app goes on when it can write again."
    return Unwritable(f"the disk can't be written or read: {how}", "state folder", remedy)


def disk_error(error: BaseException) -> NoRoom | Unwritable | None:
    """Return an error of a disk that is full, read-only or failing in words; None for any other error."""
    if is_disk_full(error):
        return disk_full()
    if isinstance(error, OSError) and error.errno in _DISK_FAILING:
        return disk_fails(error.strerror)
    return None


def is_disk_full(error: BaseException) -> bool:
    """Return True if an error says that a disk, or a user's share of it, is full: one of the system's, or of a library
    that has only the words of one.
    """
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL
    return type(error).__name__ == "SafetensorError" and any(os.strerror(number) in str(error) for number in _DISK_FULL)


_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_DISK_FAILING = (errno.EROFS, errno.EIO, errno.EFBIG)  # the last where the host limits the length of files
