"""Default dampings of other tools: every entry has its source, and the baseline of this engine is GPTQ's."""

import math

import pytest

from sarqc.errors import Damaged
from sarqc.figures.flags import DAMPINGS, GPTQ, TABLE, TOOLS, read_dampings
from sarqc.quantization.methods import METHODS
from sarqc.recipe import BASELINE
from sarqc.study.facts import BASELINE_POINTS


def test_every_tool_has_a_source_and_a_share_of_the_diagonal():
    assert len({tool.name for tool in TOOLS}) == len(TOOLS)
    for tool in TOOLS:
        assert tool.source.startswith("https://"), tool.name
        assert tool.version, tool.name
        if tool.version.startswith("commit "):  # the version that was read is the one that the address leads to
            assert f"/blob/{tool.version.removeprefix('commit ')}" in tool.source
    assert all(0 < tool.default < 1 for tool in TOOLS)
    assert [tool.default for tool in TOOLS] == sorted(tool.default for tool in TOOLS)


def test_the_baseline_is_gptq_with_the_damping_of_gptq():
    (gptq,) = (tool for tool in TOOLS if tool.name == "GPTQ")
    entry = METHODS[BASELINE]
    assert BASELINE == "gptq"
    assert gptq.default == BASELINE_POINTS["gptq"][0] == entry.make.lam == GPTQ.lam


def test_every_tool_stands_in_one_flag_of_the_axis():
    for tool in TOOLS:
        (flag,) = (flag for flag in DAMPINGS if math.isclose(flag.lam, tool.default))
        assert tool.words in flag.tools.split(", ")
        assert (tool.name in flag.name.split(", ")) == tool.on_axis


def test_an_entry_with_another_field_is_an_error(tmp_path):
    path = tmp_path / "dampings.toml"
    path.write_text(TABLE.read_text(encoding="utf-8").replace("parameter =", "option =", 1), encoding="utf-8")
    with pytest.raises(Damaged, match="option"):
        read_dampings(path)
