"""The generated page is current, and the written ones name what exists."""

import re
from pathlib import Path

import pytest

from sarqc.quantization.methods import METHODS
from tests.code_names import CodeNames, code_names

ROOT = Path(__file__).resolve().parent.parent


def test_verdicts_of_the_results_are_their_intervals():
    text = (ROOT / "docs" / "results.md").read_text().replace("−", "-")
    text, _, ladder = text.partition("## What each step is worth")
    interval = r"([+-]?[\d.]+) \((-?[\d.]+) to (-?[\d.]+)\)"
    rows = re.findall(rf"\| {interval} \| (better|not|worse) .*\| {interval}(, better|, worse|) \|", text)
    assert len(rows) == 24  # every method with a baseline, at two widths; its accuracy with an error too
    ladder, _, rest = ladder.partition("\n## Experts that few tokens reach")
    verdicts = rf"{interval} \| (better|not|worse)"
    steps, damped = re.findall(verdicts, ladder), re.findall(verdicts, rest.partition("\n## ")[0])
    # Four steps, alone and after the others, of four tables with several draws; values of λ.
    assert (len(steps), len(damped)) == (32, 3)
    judged = [(*numbers, word != "not") for *numbers, word in steps + damped]
    for mean, low, high, word, *of_accuracy, clear in rows:
        judged += [(mean, low, high, word != "not"), (*of_accuracy, clear != "")]
    for mean, low, high, clear in judged:
        assert float(low) <= float(mean) <= float(high)
        assert (float(low) > 0 or float(high) < 0) == clear
    assert "±" not in "".join(text)


def test_every_method_is_described():
    text = (ROOT / "docs" / "algorithms.md").read_text()
    for name in METHODS:
        assert f"`{name}`" in text, name


def test_files_named_in_the_pages_exist():
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.thorough
def test_the_python_of_the_guide_runs():
    import torch

    torch.manual_seed(0)
    names = {"inputs": torch.randn(64, 256), "weight": torch.randn(8, 256)}
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "guide.md").read_text(), re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, names)


# Names in the pages that are not code of this project: other projects', formats', systems' and the paper's.
ELSEWHERE = {
    ".venv", "functools.partial", "gr.Plot", "tsc",
    '{"error": {"kind", "what", "where", "remedy"}}',
    # how something is spelled, of which the parts vary
    "line/bits/quantity", "/assets/v-…/lab.js", "<dataset id>/<config>/<split>.jsonl", "file.jsonl#content",
    # of former versions
    "SARQC_RAY_ADDRESS", "--on ray", "ray job submit", "python -m sarqc prune",
    # variables that MLflow reads
    "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME",
    # a model in pieces, and folders that are made
    "llama-gguf-split --merge", "unpacked/", "build/pretrained", "build/site", "index.html",
    "python -m http.server",
    # files of a mirror
    "baber/piqa/validation.jsonl", "cais/mmlu/anatomy/test.jsonl",
}  # fmt: skip


@pytest.fixture(scope="module")
def names():
    return CodeNames()


PAGES = ["README.md", "CHANGELOG.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES)
def test_code_names_exist(page, names):
    text = (ROOT / page).read_text()
    unknown = [
        f"{page}:{line}: {name}"
        for line, name in code_names(text)
        if name not in ELSEWHERE and not names.explains(name)
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_blocks_exist(page, names):
    text = (ROOT / page).read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if re.match(r" {4,}(make|python|sarqc) ", line)]
    assert [line for line in lines if not names.is_command(line)] == []


def test_nothing_is_elsewhere_in_vain(names):
    used = {name for page in PAGES for _, name in code_names((ROOT / page).read_text())}
    assert used >= ELSEWHERE
    assert [name for name in sorted(ELSEWHERE) if names.explains(name)] == []


@pytest.mark.parametrize(
    "stale",
    [
        "sarqc/study.py", "quantization/risk_bound.py", "facts.py: LineFact", "_Layer.solve", "study.LayerInfo",
        "Study.frames", "make sites", "SARQC_FOLDER", "--lam", "sarqc quantise", "python -m sarqc run --bits 3",
        "GET /api/study/{id}", "GET /api/runs/{id}/tables",
        "inputs_from: both", "embedd=1", "quantise_layer", "assets/js/view.js", "data-controls",
    ],
)  # fmt: skip
def test_a_name_that_is_no_more_is_noticed(stale, names):
    assert not names.explains(stale)


def test_the_design_names_every_module_in_its_package():
    """Each table under a package names modules of it, and all tables together name all."""
    page = (ROOT / "docs" / "design.md").read_text().partition("\n## Direction of imports")[0]
    named = set(re.findall(r"`(sarqc/\w+\.py)`", page))
    for package, table in re.findall(r"^\| `(sarqc/[\w/]+/)` \|.*\n((?:\|.*\n)+)", page, re.M):
        named |= {package + file for file in re.findall(r"`(\w+\.py)`", table)}
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "sarqc").rglob("*.py") if path.name != "__init__.py"}
    assert named - there == set()
    # Of the figures the page names some: each is a file of its own.
    assert {name for name in there - named if not name.startswith("sarqc/figures/")} == set()
