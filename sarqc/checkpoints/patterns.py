"""Regular expressions of a checkpoint for names of its linears, matched with a limit on time; no torch.

Checkpoints come from anybody, so ``re`` never runs their expressions: it backtracks, which a malicious expression makes
endless, and no other thread goes on meanwhile.

Here a part of an expression maps a set of positions to another: from those where its matches end to those where they
begin. Sets are the bits of an integer, as in Cameron et al., “Bitwise Data Parallelism in Regular Expression Matching”
(2014). Nothing is tried twice, and the remaining work, repetitions within repetitions, is counted and has a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, product
from re import _parser  # type: ignore[attr-defined]  # nothing public reads an expression without compiling it
from typing import Any, Generic, TypeVar

from sarqc.errors import Refused
from sarqc.files.names import shortened

MOST_CHARACTERS = 1 << 20  # of all expressions; one that lists the linears of a mixture takes as many
MOST_PATTERNS = 5_000  # beside those that are a name
LONGEST_NAME = 500
DEEPEST = 50  # groups within groups
STEPS = 200_000  # of some 0.3 µs: the most that may be spent at once
STEPS_EACH_NAME = 2_000  # and in addition for each name that is asked for
_REMEDY = "Edit its config.json: name the linears, or write a simpler pattern."
_ONE_NAME = re.compile(r"\^?((?:\w|\\[.-])+)\$")  # as re.escape writes it, and GPTQModel's rules for single linears

Value = TypeVar("Value")


class _TooMuchWork(Exception):
    """More steps than a name may take."""


class _NotAList(Exception):
    """An expression that does not just list names."""


class _NotRead(Exception):
    """A part of an expression that is not read here, in words."""


class _Name:
    """A name, and sets of positions in it: bit k stands for the position with k characters after it."""

    def __init__(self, text: str, steps: int) -> None:
        self.text, self.steps = text, steps
        self.start = 1 << len(text)
        self.everywhere = 2 * self.start - 1
        self._strings: dict[str, int] = {}
        self._sets: dict[_Characters, int] = {}

    def spend(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise _TooMuchWork

    def of_string(self, string: str) -> int:
        """Positions where a string begins."""
        if (known := self._strings.get(string)) is not None:
            return known
        positions, at = 0, self.text.find(string)
        while at >= 0:
            self.spend()
            positions |= self.start >> at
            at = self.text.find(string, at + 1)
        self._strings[string] = positions
        return positions

    def of_set(self, characters: _Characters) -> int:
        """Positions where a character of a set begins."""
        if (known := self._sets.get(characters)) is not None:
            return known
        positions = 0
        for character in set(self.text):
            self.spend(characters.steps(character))
            if characters.has(character):
                positions |= self.of_string(character)
        self._sets[characters] = positions
        return positions


Part = Callable[[_Name, int], int]  # from the positions where matches end to those where they begin
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdecimal,
    "SPACE": str.isspace,
    "WORD": lambda character: character.isalnum() or character == "_",
}


class _Characters:
    """A set of characters, by the items of a class as Python's parser gives them."""

    def __init__(self, items: Sequence[tuple[Any, Any]]) -> None:
        self._is_negated = bool(items) and str(items[0][0]) == "NEGATE"
        self._items = [(str(kind), value) for kind, value in items[self._is_negated :]]
        self._known: dict[str, bool] = {}

    def steps(self, character: str) -> int:
        """Number of steps to test for a character."""
        return 1 if character in self._known else 1 + len(self._items)

    def has(self, character: str) -> bool:
        if character not in self._known:
            self._known[character] = any(self._is_in(character, *item) for item in self._items) != self._is_negated
        return self._known[character]

    @staticmethod
    def _is_in(character: str, kind: str, value: Any) -> bool:
        if kind == "LITERAL":
            return bool(ord(character) == value)
        if kind == "RANGE":
            return bool(value[0] <= ord(character) <= value[1])
        category = str(value).removeprefix("CATEGORY_")
        return _CATEGORIES[category.removeprefix("NOT_")](character) != category.startswith("NOT_")

    def __call__(self, name: _Name, ends: int) -> int:
        """One character of the set."""
        return (ends << 1) & name.of_set(self)


_NO_LINE_BREAK = _Characters([("NEGATE", None), ("LITERAL", ord("\n"))])
_WORD = _Characters([("CATEGORY", "CATEGORY_WORD")])


def _string(string: str) -> Part:
    def begins(name: _Name, ends: int) -> int:
        positions = name.of_string(string)
        return positions and (ends << len(string)) & positions

    return begins


def _sequence(parts: Sequence[Part]) -> Part:
    def begins(name: _Name, ends: int) -> int:
        for part in reversed(parts):
            if not ends:
                break
            name.spend()
            ends = part(name, ends)
        return ends

    return parts[0] if len(parts) == 1 else begins


def _any_of(parts: Sequence[Part]) -> Part:
    def begins(name: _Name, ends: int) -> int:
        positions = 0
        for part in parts:
            name.spend()
            positions |= part(name, ends)
        return positions

    return begins


def _repeated(low: int, high: int, body: Part) -> Part:
    def begins(name: _Name, ends: int) -> int:
        most = len(name.text) + 2  # repetitions after which sets stay as they are
        for _ in range(min(low, most)):
            if not ends:
                return 0
            name.spend()
            ends = body(name, ends)
        if isinstance(body, _Characters) and high - low >= most:  # all at once, by a carry that runs through the set
            along = name.of_set(body) >> 1
            return (((ends & along) + along) ^ along) | ends
        last = ends
        for _ in range(min(high - low, most)):
            name.spend()
            last = body(name, last) & ~ends
            if not last:
                break
            ends |= last
        return ends

    return begins


def _ahead(part: Part, wanted: bool) -> Part:
    def begins(name: _Name, ends: int) -> int:
        positions = part(name, name.everywhere)
        return ends & (positions if wanted else ~positions)

    return begins


def _start(name: _Name, ends: int) -> int:
    return ends & name.start


def _end(name: _Name, ends: int) -> int:
    return ends & (3 if name.text.endswith("\n") else 1)


def _very_end(name: _Name, ends: int) -> int:
    return ends & 1


def _boundary(name: _Name, ends: int) -> int:
    words = name.of_set(_WORD)
    return ends & (words ^ (words >> 1))


def _nowhere(_name: _Name, _ends: int) -> int:
    return 0


_AT: dict[str, Part] = {
    "AT_BEGINNING": _start,
    "AT_BEGINNING_STRING": _start,
    "AT_END": _end,
    "AT_END_STRING": _very_end,
    "AT_BOUNDARY": _boundary,
}
_UNREAD = {
    "ASSERT": "looks behind",
    "ASSERT_NOT": "looks behind",
    "AT": "asks for something other than a word boundary",
    "ATOMIC_GROUP": "has an atomic group",
    "GROUPREF": "refers to one of its groups",
    "GROUPREF_EXISTS": "refers to one of its groups",
    "POSSESSIVE_REPEAT": "has a possessive repetition",
    "SUBPATTERN": "has flags",
}


def _merged(tree: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """The operations of a sequence as Python's parser gives them, by name; neighbouring letters as one string."""
    for is_letter, operations in groupby(tree, lambda operation: str(operation[0]) == "LITERAL"):
        if is_letter:
            yield "STRING", "".join(chr(value) for _, value in operations)
        else:
            yield from ((str(kind), value) for kind, value in operations)


def _whole(tree: Iterable[tuple[Any, Any]], depth: int = 0) -> Part:
    if depth > DEEPEST:
        raise _NotRead(f"has groups within groups, more than {DEEPEST}")
    return _sequence([_part(kind, value, depth + 1) for kind, value in _merged(tree)])


def _part(kind: str, value: Any, depth: int) -> Part:
    if kind == "STRING":
        return _string(value)
    if kind == "ANY":
        return _NO_LINE_BREAK
    if kind == "IN":
        return _Characters(value)
    if kind == "NOT_LITERAL":
        return _Characters([("NEGATE", None), ("LITERAL", value)])
    if kind in (
        "MAX_REPEAT",
        "MIN_REPEAT",
    ):  # whether it is greedy decides where a match ends, not whether there is one
        return _repeated(value[0], value[1], _whole(value[2], depth))
    if kind == "SUBPATTERN" and not value[1] and not value[2]:
        return _whole(value[3], depth)
    if kind == "BRANCH":
        return _any_of([_whole(branch, depth) for branch in value[1]])
    if kind in ("ASSERT", "ASSERT_NOT") and value[0] > 0:
        return _ahead(_whole(value[1], depth), kind == "ASSERT")
    if kind == "AT" and (at := _AT.get(str(value))) is not None:
        return at
    if kind == "FAILURE":
        return _nowhere
    raise _NotRead(_UNREAD.get(kind, "has a part"))


class _Listing:
    """All strings that an expression of letters and choices matches: those of a list of names.

    Raises ``_NotAList`` where there is anything else in it, or the list is much longer than the expression.
    """

    def __init__(self, most: int) -> None:
        self._left = most

    def of(self, tree: Iterable[tuple[Any, Any]]) -> list[str]:
        strings = [""]
        for kind, value in _merged(tree):
            choices = self._choices(kind, value)
            self._left -= len(strings) * sum(len(choice) + 1 for choice in choices)
            self._left -= len(choices) * sum(len(string) + 1 for string in strings)
            if self._left < 0:
                raise _NotAList
            strings = [before + after for before, after in product(strings, choices)]
        return strings

    def _choices(self, kind: str, value: Any) -> list[str]:
        if kind == "STRING":
            return [value]
        if kind == "IN" and all(str(item) == "LITERAL" for item, _ in value):
            return [chr(item) for _, item in value]
        if kind == "SUBPATTERN" and not value[1] and not value[2]:
            return self.of(value[3])
        if kind == "BRANCH":
            return [string for branch in value[1] for string in self.of(branch)]
        raise _NotAList


def _names(tree: Sequence[tuple[Any, Any]], most: int) -> list[str] | None:
    """The names that an expression lists; None where it is not such a list."""
    if not tree or str(tree[-1][0]) != "AT" or str(tree[-1][1]) != "AT_END":
        return None
    has_start = str(tree[0][0]) == "AT" and str(tree[0][1]) == "AT_BEGINNING"
    try:
        return _Listing(most).of(tree[has_start:-1])
    except _NotAList:
        return None


class Patterns(Generic[Value]):
    r"""Values for linears under regular expressions for their names; the first that matches counts.

    It answers as ``re.match`` would, or with ``anywhere`` as ``re.search``, for letters, classes, groups, choices,
    repetitions, ``^``, ``$``, ``\b`` and lookahead.

    Args:
        values: Pairs of expression and value.
        refused: Function that makes a refusal of what and remedy.
        anywhere: Match anywhere in a name.
        skips_invalid: Ignore invalid expressions instead of refusing them.

    Raises:
        Refused: For other expressions and for those that take too long.
    """

    def __init__(
        self,
        values: Iterable[tuple[str, Value]],
        refused: Callable[[str, str], Refused],
        *,
        anywhere: bool = False,
        skips_invalid: bool = False,
    ) -> None:
        self._refused, self._anywhere, self._steps = refused, anywhere, STEPS
        self._values: list[Value] = []
        self._names: dict[str, int] = {}
        self._parts: list[tuple[int, Part]] = []
        characters = 0
        for pattern, value in values:
            characters += len(pattern)
            if characters > MOST_CHARACTERS or len(self._parts) > MOST_PATTERNS:
                what = f"it has more than {MOST_PATTERNS} patterns for names of linears, or very long ones"
                raise refused(what, _REMEDY)
            try:
                self._add(pattern)
            except (re.error, OverflowError, RecursionError) as error:
                if skips_invalid and isinstance(error, re.error):
                    continue
                reason = str(error) if isinstance(error, re.error) else "it is too large"
                raise self._not_read(pattern, f"is invalid: {reason}") from None
            except _NotRead as unread:
                raise self._not_read(pattern, f"{unread}, which is not read here") from None
            self._values.append(value)

    def _not_read(self, pattern: str, why: str) -> Refused:
        return self._refused(f"its pattern “{shortened(pattern)}” for names of linears {why}", _REMEDY)

    def _add(self, pattern: str) -> None:
        index = len(self._values)
        if not self._anywhere and (name := _ONE_NAME.fullmatch(pattern)):
            self._names.setdefault(name[1].replace("\\", ""), index)
            return
        tree = _parser.parse(pattern)
        if tree.state.flags != re.UNICODE:
            raise _NotRead("has flags")
        names = None if self._anywhere else _names(tree.data, 8 * len(pattern))
        if names is None:
            self._parts.append((index, _whole(tree)))
        for listed in names or ():
            self._names.setdefault(listed, index)

    def first(self, name: str) -> Value | None:
        """Return the value of the first expression that matches a name; None without any.

        Raises:
            Refused: For a name that is too long, and if the expressions take too long.
        """
        if len(name) > LONGEST_NAME or "\n" in name:
            what = f"“{shortened(name)}” is not a name that patterns are tried on"
            raise self._refused(what, f"Name linears with up to {LONGEST_NAME} characters, without line breaks.")
        listed = self._names.get(name, len(self._values))
        text = _Name(name, self._steps + STEPS_EACH_NAME)
        try:
            for index, part in self._parts:
                if index > listed:
                    break
                text.spend()
                begins = part(text, text.everywhere)
                if begins if self._anywhere else begins & text.start:
                    return self._values[index]
        except _TooMuchWork:
            what = "its patterns for names of linears take too long"
            raise self._refused(what, _REMEDY) from None
        finally:
            self._steps = min(max(text.steps, 0), STEPS)
        return self._values[listed] if listed < len(self._values) else None
