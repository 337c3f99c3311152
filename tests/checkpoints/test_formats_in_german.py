"""Who can load a run, and why a format can't carry one, in German."""

from __future__ import annotations

import re

import pytest

from sarqc.checkpoints.formats import check_export, exports_of
from sarqc.errors import Refused
from sarqc.language import speaking
from sarqc.recipe import Recipe

_ENGLISH = re.compile(r"\b(?:the|and|of|with|is|for|format has|use|groups)\b")


def recipe(**changes: object) -> Recipe:
    return Recipe.parse({"model": "tiny-llama", "bits": 4, "method": "gptq", "calibration": "c4", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bits": 3, "indivisible": "per_channel"},
        {"bits": 2, "grid": "asymmetric"},
        {"grid": "affine"},
        {"method": "awq"},
        {"grid": "symmetric", "group_size": 16},
        {"kind": "tune", "method": "sarqc-gbs", "test": "wikitext2-test"},
    ],
)
def test_notes_reasons_and_conditions(changes: dict[str, object]) -> None:
    asked = recipe(**changes)
    english = exports_of(asked, is_mixture=False)
    with speaking("de"):
        german = exports_of(asked, is_mixture=False)
    for before, after in zip(english, german, strict=True):
        assert (before.format, before.possible) == (after.format, after.possible)
        assert after.note != before.note
        said = [after.note, after.tried, *(fix.words for fix in after.fixes)]
        said += [answer.words for answer in after.readers if answer.loads == "not_run"]
        assert [text for text in said if _ENGLISH.search(text)] == []


def test_a_refusal_has_three_german_parts() -> None:
    with speaking("de"), pytest.raises(Refused) as refused:
        check_export(recipe(grid="affine"), "gptq")
    assert refused.value.parts() == {
        "kind": "refused",
        "what": "das Format hat keinen Platz für die Offsets des affinen Gitters",
        "where": "Format gptq",
        "remedy": "Nehmen Sie ein anderes Gitter oder das Format mlx oder plain.",
    }
