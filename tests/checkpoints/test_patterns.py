"""Patterns for names of linears: the same answers as ``re``, and none of its dangers."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sarqc.checkpoints.gptq import quantization_config
from sarqc.checkpoints.patterns import LONGEST_NAME, MOST_CHARACTERS, MOST_PATTERNS, Patterns
from sarqc.errors import Refused
from sarqc.integrations.program import exactly, outside
from sarqc.quantization.grid import Grid
from tests.torture import pattern_bombs


def refused(what: str, remedy: str) -> Refused:
    return Refused(what, "theirs", remedy)


def of(*patterns: str, anywhere: bool = False) -> Patterns[int]:
    return Patterns(((pattern, number) for number, pattern in enumerate(patterns)), refused, anywhere=anywhere)


def by_re(name: str, *patterns: str, anywhere: bool = False) -> int | None:
    matches = re.search if anywhere else re.match
    return next((number for number, pattern in enumerate(patterns) if matches(pattern, name)), None)


NAMES = [
    "lm_head",
    "model.embed_tokens",
    *(f"model.layers.{block}.self_attn.{part}_proj" for block in (0, 1, 10, 17, 21) for part in "qkvo"),
    *(
        f"model.layers.{block}.mlp.{where}{part}_proj"
        for block, where, part in product(
            (0, 1, 10, 17, 21), ("", "experts.3.", "shared_expert."), ("gate", "up", "down")
        )
    ),
    *(f"model.layers.{block}.mlp.gate" for block in (0, 3)),
    "model.visual.blocks.0.attn.qkv",
]
GRIDS = {NAMES[4]: Grid(4, 32, "asymmetric"), NAMES[5]: Grid(4, None, "asymmetric")}
RULES = quantization_config(NAMES[-2:], GRIDS)["dynamic"]
# What llm-compressor, GPTQModel, AutoRound and the programs that are written here put into a configuration.
WRITTEN = [
    r".*q_proj$", r".*lm_head", r"model\.layers\.\d+\..*", r".*(q|k|v)_proj$", r".*self_attn.*", r".*embed_tokens$",
    r".*mlp\.experts\..*proj$", r".*mlp\.experts(?:\..*)?$", r".*\.mlp\.experts\.", r".*self_attn[.](q|k|v|o)_proj$",
    r"^mtp\..*", r"(?!.*experts).*_proj", r"(?:mtp|stages)\.\d+\.", r".*(gate|up|down)_proj$", r"re.*vision.*",
    r".*\.(?:1[0-5])\..*", r".*\.(?:1[6-9]|20|21)\..*", r".*\.moe\..*", r".*\bmtp\..*", r".*\.[0-9]+\.mlp\.gate$",
    r".*layers\.0\.mlp\.down_proj$", r".*\.k_", r"model\.layers\.([0-9]|1[0-7])\.mlp\.(up|gate)_proj",
    r".*mlp\.gate.*", r"model.layers.1.mlp.up_proj", r"^model\.layers\.(?!(?:0|10|17)\.)", r"[\w.]+gate\Z",
    exactly(NAMES[3:9]), exactly(NAMES[-4:]), outside([1, 17]), *(f"^{re.escape(name)}$" for name in NAMES[5:8]),
    *RULES,
]  # fmt: skip
WRITTEN = [pattern.removeprefix("+:").removeprefix("-:") for pattern in WRITTEN]


@pytest.mark.parametrize("anywhere", [False, True])
def test_what_engines_write_means_what_they_mean(anywhere: bool) -> None:
    for pattern in WRITTEN:
        patterns = of(pattern, anywhere=anywhere)
        assert [patterns.first(name) for name in NAMES] == [by_re(name, pattern, anywhere=anywhere) for name in NAMES]
    for order in (WRITTEN, WRITTEN[::-1]):
        together = of(*order, anywhere=anywhere)
        assert [together.first(name) for name in NAMES] == [by_re(name, *order, anywhere=anywhere) for name in NAMES]


ATOMS = st.sampled_from(
    ["a", "b", "1", "_", r"\.", ".", "ab", "a.b", "[ab]", "[^a]", r"[a-z_\d]", r"[^\W1]", r"\d", r"\D", r"\w", r"\W",
     r"\s", r"\b", "^", "$", r"\A", r"\Z", "", "(?!)", "é"]
)  # fmt: skip
REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1,2}", "{0,3}?", "{2,}", "{9}"])


@st.composite
def of_parts(draw: st.DrawFn, within: st.SearchStrategy[str]) -> str:
    opening = draw(st.sampled_from(["(", "(?:", "(?P<g>", "(?=", "(?!"]))
    inner = draw(st.lists(within, min_size=1, max_size=3).map("".join) | st.lists(within, max_size=3).map("|".join))
    group = f"{opening}{inner})"
    return group if "<g>" in inner else group + draw(REPEATS)


@st.composite
def repeated(draw: st.DrawFn) -> str:
    return draw(ATOMS) + draw(REPEATS)


PATTERNS = st.recursive(ATOMS | repeated(), of_parts, max_leaves=6)
SHORT_NAMES = st.text("ab1_.é ", max_size=7)


@settings(max_examples=600, deadline=None)
@given(st.lists(PATTERNS, max_size=3).map("".join), st.lists(SHORT_NAMES, min_size=1, max_size=4), st.booleans())
def test_answers_are_those_of_re(pattern: str, names: list[str], anywhere: bool) -> None:
    try:
        re.compile(pattern)
    except re.error:
        with pytest.raises(Refused, match="is invalid"):
            of(pattern, anywhere=anywhere)
        return
    assume(not re.search(r"[*+?}]\+", pattern))  # possessive: an atom that is empty leaves two repetitions together
    patterns = of(pattern, anywhere=anywhere)
    for name in names:
        assert patterns.first(name) == by_re(name, pattern, anywhere=anywhere), name


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "ab", "ba", "abc", "1"]), min_size=1, max_size=6), SHORT_NAMES)
def test_a_list_of_names_is_that_list(names: list[str], name: str) -> None:
    pattern = exactly(names)
    patterns = of(pattern)
    assert not patterns._parts
    assert patterns.first(name) == by_re(name, pattern)
    assert all(patterns.first(listed) == 0 for listed in names)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(a)\1", "refers to one of its groups"),
        (r"(a)?(?(1)b|c)", "refers to one of its groups"),
        (r"(?<=a)b", "looks behind"),
        (r"(?<!a)b", "looks behind"),
        (r"(?i)a", "has flags"),
        (r"(?i:a)", "has flags"),
        (r"(?>a*)a", "atomic group"),
        (r"a*+a", "possessive repetition"),
        (r"a\B", "word boundary"),
        ("(" * 60 + "a" + ")" * 60, "groups within groups"),
        ("(" * 5000, "too large"),
        (r"\d{99999999999999999999}", "too large"),
        ("(a", "is invalid"),
        ("*", "is invalid"),
    ],
)
def test_what_is_not_read_is_refused_in_a_sentence(pattern: str, words: str) -> None:
    with pytest.raises(Refused) as error:
        of(pattern)
    assert words in error.value.what
    assert error.value.where == "theirs"
    assert len(error.value.what) < 250
    assert error.value.remedy.endswith(".")


LONG = "model.layers.10." + "a." * 240


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("pattern", pattern_bombs.PATTERNS)
def test_no_pattern_takes_long(pattern: str, anywhere: bool) -> None:
    patterns = of(pattern, anywhere=anywhere)
    for _ in range(20):
        assert tried(patterns, LONG) in (None, "refused")


def test_what_takes_long_even_so_is_refused() -> None:
    many = of(*(rf".*l{number}.*" for number in range(MOST_PATTERNS)))
    answers = [tried(many, f"model.layers.{block}.mlp.up_proj") for block in range(100)]
    assert answers[-1] == "refused"


def tried(patterns: Patterns[int], name: str) -> int | str | None:
    try:
        return patterns.first(name)
    except Refused as error:
        return "refused" if "take too long" in error.what else error.what


def test_there_is_an_end_to_patterns_and_names() -> None:
    with pytest.raises(Refused, match=f"more than {MOST_PATTERNS} patterns"):
        of(*(rf".*x{number}$" for number in range(100_000)))
    with pytest.raises(Refused, match="very long ones"):
        of("a" * (MOST_CHARACTERS + 1))
    for name in ("a" * (LONGEST_NAME + 1), "a\nb"):
        with pytest.raises(Refused, match="is not a name"):
            of("a").first(name)
    each = of(*(rf"^model\.layers\.{block}\.experts\.{expert}$" for block in range(60) for expert in range(256)))
    assert each.first("model.layers.59.experts.255") == 60 * 256 - 1  # as many as the linears of a mixture


def test_invalid_patterns_are_passed_over_where_their_engine_does_so() -> None:
    patterns = Patterns([("(a", 0), ("*", 1), ("a", 2)], refused, anywhere=True, skips_invalid=True)
    assert patterns.first("bab") == 2
    assert patterns.first("b") is None
