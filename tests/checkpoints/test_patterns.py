"""Patterns for names of linears: the same answers as ``re``, and none of its dangers."""

import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.torture import pattern_bombs
from sarqc import Grid
from sarqc.checkpoints.gptq import quantization_config
from sarqc.checkpoints.patterns import CPU_SECONDS, by_pattern
from sarqc.errors import Refused
from sarqc.extras.engines.program import match_exactly, match_other_blocks


def refused(what: str, remedy: str) -> Refused:
    return Refused(what, "theirs", remedy)


def found(names: list[str], *patterns: str, anywhere: bool = False) -> dict[str, int]:
    return by_pattern(((pattern, number) for number, pattern in enumerate(patterns)), names, refused, anywhere=anywhere)


def by_re(names: list[str], *patterns: str, anywhere: bool = False) -> dict[str, int]:
    matches = re.search if anywhere else re.match
    by_name = {name: [number for number, each in enumerate(patterns) if matches(each, name)] for name in names}
    return {name: numbers[0] for name, numbers in by_name.items() if numbers}


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
    match_exactly(NAMES[3:9]), match_exactly(NAMES[-4:]), match_other_blocks([1, 17]),
    *(f"^{re.escape(name)}$" for name in NAMES[5:8]), *RULES,
]  # fmt: skip
WRITTEN = [pattern.removeprefix("+:").removeprefix("-:") for pattern in WRITTEN]


@pytest.mark.parametrize("anywhere", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_what_engines_write_means_what_they_mean(anywhere):
    for pattern in WRITTEN:
        assert found(NAMES, pattern, anywhere=anywhere) == by_re(NAMES, pattern, anywhere=anywhere)
    for order in (WRITTEN, WRITTEN[::-1]):
        assert found(NAMES, *order, anywhere=anywhere) == by_re(NAMES, *order, anywhere=anywhere)


WORDS = st.sampled_from(["a", "b", "ab", "ba", "abc", "a.b", "a-1"])
SHORT_NAMES = st.lists(WORDS | st.text("ab1_.- é", max_size=7), max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=6).map(match_exactly), max_size=3), SHORT_NAMES)
def test_lists_of_names_are_those_lists(patterns, names):
    assert found(names, *patterns) == by_re(names, *patterns)


@pytest.mark.parametrize("anywhere", [False, True])
def test_the_first_counts_whether_it_lists_names_or_not(anywhere):
    names = ["a", "b", "ab", "ba", "a|b"]
    for order in ((r"a", r"^ab$", r"a|b$"), (r"^ab$", r"a", r"^(?:b|a)$"), (r"a|b$", r"ab$"), (r".*b", r"^(?:b|ab)$")):
        assert found(names, *order, anywhere=anywhere) == by_re(names, *order, anywhere=anywhere)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(" * 5000, "too large"),
        (r"\d{99999999999999999999}", "too large"),
        ("(a", "unterminated"),
        ("*", "nothing to"),
    ],
)
def test_what_is_invalid_is_refused_in_a_sentence(pattern, words):
    with pytest.raises(Refused, match="is invalid") as error:
        found(NAMES, "^a$", pattern)
    assert words in error.value.what
    assert f"“{pattern[:50]}" in error.value.what
    assert error.value.where == "theirs"
    assert len(error.value.what) < 250
    assert error.value.remedy.endswith(".")


LONG = "model.layers.10." + "a." * 240


@pytest.mark.thorough
@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("pattern", pattern_bombs.PATTERNS)
def test_no_pattern_takes_long(pattern, anywhere):
    assert answered([LONG], pattern, anywhere=anywhere) in ({}, "refused")


def test_what_takes_long_is_refused_and_the_refusal_is_kept():
    assert answered([LONG], pattern_bombs.FROZE) == "refused"
    began = time.monotonic()
    assert answered([LONG], pattern_bombs.FROZE) == "refused"
    assert time.monotonic() - began < 1


@pytest.mark.thorough
def test_what_takes_much_memory_is_refused():
    assert answered(["a"], "a[b]" * 2_000_000) == "refused"


def answered(names: list[str], *patterns: str, anywhere: bool = False) -> dict[str, int] | str:
    try:
        return found(names, *patterns, anywhere=anywhere)
    except Refused as error:
        return "refused" if f"take more than {CPU_SECONDS} s" in error.what else error.what


def test_a_rule_for_each_linear_of_a_mixture_takes_no_time():
    names = [f"model.layers.{block}.experts.{expert}" for block, expert in product(range(60), range(256))]
    began = time.monotonic()
    assert found(names, *(f"^{re.escape(name)}$" for name in names)) == {name: at for at, name in enumerate(names)}
    assert found(names, match_exactly(names[1:])) == dict.fromkeys(names[1:], 0)
    assert time.monotonic() - began < 5


def test_invalid_patterns_are_passed_over_where_their_engine_does_so():
    patterns = [("(a", 0), ("*", 1), ("a", 2)]
    assert by_pattern(patterns, ["bab", "b"], refused, anywhere=True, skips_invalid=True) == {"bab": 2}
