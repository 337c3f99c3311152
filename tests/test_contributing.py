"""docs/contributing.md, followed to the letter: its code goes where it says, in a copy of the repository, and works."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing.md"
_BLOCK = re.compile(
    r"^```(?:python|js|(diff))\n(?:#|//) ([\w./]+)(?:, (imports|in \w+|before \w+))?\n(.*?)^```$", re.M | re.S
)


def recipe(heading: str) -> list[tuple[str, str, str]]:
    """The code under a heading of the page: file, place in it (“diff”: its own; empty: the whole file) and text."""
    _, _, rest = PAGE.read_text().partition(f"\n## {heading}\n")
    blocks = _BLOCK.findall(rest.partition("\n## ")[0])
    assert blocks, heading
    return [(file, diff or place, text) for diff, file, place, text in blocks]


def put(file: Path, place: str, text: str):
    """Writes ``text`` into a file: as the whole of it, behind the imports, before a name, or last in what it holds."""
    if not place:
        assert not file.exists(), file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return
    source = file.read_text()
    if place == "diff":
        file.write_text(patched(source, text))
        return
    at, ending = _place(source, place, is_python=file.suffix == ".py")
    assert text.strip(), (file, place)
    before = source[:at].rstrip()
    comma = "," if ending == "item" and before[-1] not in "([{," else ""
    joined = f"{before}{comma}\n{text}" if ending == "item" else f"{source[:at]}{text}\n\n"
    file.write_text(joined + source[at:])


def patched(source: str, diff: str) -> str:
    """The source with the parts of a diff in it, which “@@” sets apart."""
    for part in diff.split("@@\n"):
        lines = part.splitlines(keepends=True)
        former, new = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        assert source.count(former) == 1, former
        source = source.replace(former, new)
    return source


def _place(source: str, place: str, *, is_python: bool) -> tuple[int, str]:
    """Where to put something, as a position in the source, and whether it is an item of a list or a piece of code."""
    _, _, name = place.partition(" ")
    if not is_python:
        found = re.search(rf"^const {name} = \[", source, re.M)
        assert found, name
        return source.index("]", found.end()), "item"
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()

    def position(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    if place == "imports":
        last = max(node.end_lineno for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
        return position(last + 1, 0), "code"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return position(node.end_lineno + 1, 0), "code"
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if name in [target.id for target in targets if isinstance(target, ast.Name)]:
            if place.startswith("before"):
                return position(node.lineno, 0), "code"
            return position(node.value.end_lineno, node.value.end_col_offset - 1), "item"
    raise AssertionError(f"there is no {name} at the top of the file")


class Copy:
    """The repository's tracked code in a folder of its own; models and studies are links to the real ones."""

    def __init__(self, folder):
        self.folder = folder
        linked = {"models", "studies"}
        for name in ("sarqc", "pages", "docs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "app.py", folder)
        shutil.copytree(ROOT / "assets", folder / "assets", ignore=lambda *_: linked)
        for name in linked:
            (folder / "assets" / name).symlink_to(ROOT / "assets" / name)
        (folder / "tests").symlink_to(ROOT / "tests")

    def follow(self, heading):
        """Does what the page says under a heading."""
        for file, place, text in recipe(heading):
            put(self.folder / file, place, text)

    def run(self, *command):
        """What a command prints, started in the copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "SARQC_STATE_DIR": str(self.folder / "state")}
        done = subprocess.run(
            [str(part) for part in command], cwd=self.folder, capture_output=True, text=True, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def python(self, code):
        """What a piece of code prints as JSON."""
        return json.loads(self.run(sys.executable, "-c", code).splitlines()[-1])


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path / "sarqc")


def test_a_method(copy):
    copy.follow("Add a method")
    found = copy.python("""
import json, sarqc, torch
from sarqc import Grid, LayerStatistics, Recipe, method, quantize_layer
assert sarqc.__file__.startswith(__import__("os").getcwd())
torch.manual_seed(0)
x, weight = torch.randn(64, 32), torch.randn(8, 32)
grid, statistics = Grid(3, 16, "asymmetric"), LayerStatistics.from_inputs(x)
def layer(name, **choices): return quantize_layer(weight, statistics, grid, method(name, **choices))
drifts = [layer("shrunk", lam=lam).report.drift for lam in (0.0, 0.05, 0.5)]
parsed = Recipe.parse({"model": "m", "calibration": "c", "method": "shrunk", "lambda": 0.5})
print(json.dumps({"drifts": drifts, "nearest": layer("rtn").report.drift, "chosen": layer("shrunk").report.chosen,
                  "gptq-5": layer("gptq-5").report.chosen["lam"], "parsed": parsed.to_method().lam}))
""")
    drifts = found["drifts"]
    assert drifts[0] == found["nearest"] < drifts[1] < drifts[2]
    assert (found["chosen"], found["gptq-5"], found["parsed"]) == ({"method": "Shrunk", "lam": 0.05}, 0.05, 0.5)
    copy.run(sys.executable, "docs/make_contract.py")
    contract = (copy.folder / "assets/js/base/recipe_contract.js").read_text()
    assert "Shrunk weights" in contract
    assert "GPTQ, 5 % damping" in contract
    copy.run(sys.executable, "docs/make_reference.py")
    reference = (copy.folder / "docs/reference.md").read_text()
    assert "| `shrunk` | – | Shrunk weights | λ | for each layer: λ 0, 0.05 |" in reference
    assert "gptq-5" in reference


def test_a_field_of_the_column_solver(copy):
    copy.follow("Add a field to the column solver")
    assert len({file for file, _, _ in recipe("Add a field to the column solver")}) < 3
    found = copy.python("""
import json, sarqc
from pages.form_of_recipe import recipe_form
from sarqc import Recipe, method
from sarqc.engine import keys
from sarqc.errors import Refused
from sarqc.recipe import method_title
from sarqc.recipe.texts import texts
import gradio as gr
from sarqc.extras.engines.engine_request import request_for
def elsewhere(recipe):
    try: request_for(recipe)
    except Refused as error: return error.what
def refusal(value):
    try: Recipe.parse(least | {"damping_limit": value})
    except Refused as error: return [error.what, error.remedy, [fix.values for fix in error.fixes]]
least = {"model": "m", "calibration": "c"}
limited, plain = ((Recipe.parse(least | more)) for more in ({"damping_limit": 2}, {}))
with gr.Blocks(): form = recipe_form()
point = limited.to_method().with_(expert_damping="damped")
print(json.dumps({
    "form": "damping_limit" in form, "texts": [text["text"] for text in texts(limited.to_json(), "http://host")],
    "ignored": Recipe.parse(least | {"damping_limit": 2, "method": "rtn"}).ignored(),
    "refusals": [refusal(0.5), refusal("x")],
    "elsewhere": [elsewhere(limited), elsewhere(plain)],
    "title": method_title("gptq", {"expert_damping": "damped", "damping_limit": 2}),
    "lam": [point.lam_for(1, 9), point.lam],
    "keys": [keys._values(recipe.to_method()).get("damping_limit") for recipe in (limited, plain)],
    "is_said": ["damping_limit" in recipe.to_json() for recipe in (limited, plain)],
    "schema": Recipe.model_json_schema()["properties"]["damping_limit"]["section"]}))
""")
    assert found["form"]
    for text, words in zip(
        found["texts"], ("damping_limit: 2", "--damping-limit 2", '"damping_limit": 2'), strict=False
    ):
        assert words in text
    assert found["elsewhere"] == ["no program for another engine has it", None]
    assert found["ignored"] == ["Limit of damping = 2.0 has no effect on rtn"]
    low, word = found["refusals"]
    assert low[0] == "Limit of damping (damping_limit) is 0.5: it must be 1 or more"
    assert low[2] == [{"damping_limit": 1}]
    assert word[0] == "Limit of damping (damping_limit) is 'x': it must be a number"
    assert found["title"] == "GPTQ 1 %, starved experts damped, damped × 2 at most"
    assert found["lam"] == [2 * found["lam"][1], 0.25]
    assert found["keys"] == [2, None]
    assert found["is_said"] == [True, False]
    assert found["schema"] == "method"
    assert "--damping-limit" in copy.run(sys.executable, "-m", "sarqc", "quantize", "--help")
    copy.run(sys.executable, "docs/make_contract.py")
    contract = (copy.folder / "assets/js/base/recipe_contract.js").read_text()
    assert '"title": "Limit of damping"' in contract
    copy.run(sys.executable, "docs/make_reference.py")
    assert "| `damping_limit` | `--damping-limit` |" in (copy.folder / "docs/reference.md").read_text()


def test_a_model_family(copy, tmp_path, tiny_llama, text_file):
    from transformers import AutoModelForCausalLM, SmolLM3Config

    from sarqc.models.families import FAMILIES

    copy.follow("Add a model family")
    torch.manual_seed(0)
    config = SmolLM3Config(
        vocab_size=4096, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    assert all(config.model_type not in family.model_types for family in FAMILIES)
    folder = tmp_path / "checkpoint"
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_llama / name, folder / name)
    found = copy.python(f"""
import json
from pathlib import Path
from sarqc import Recipe, execute
from sarqc.events import Finished, LayerDone
from sarqc.models.checkpoint import read_checkpoint
from sarqc.settings import Settings
title = read_checkpoint(Path({str(folder)!r})).family.title
recipe = Recipe.parse({{"model": {str(folder)!r}, "calibration": {str(text_file)!r}, "test": {str(text_file)!r},
    "method": "gptq", "group_size": 16, "samples": 2, "length": 32, "window": 32, "test_tokens": 64,
    "baseline": False}})
events = list(execute(recipe, Settings()))
names = [event.name for event in events if isinstance(event, LayerDone)]
print(json.dumps([title, names, isinstance(events[-1], Finished)]))
""")
    title, names, is_finished = found
    assert (title, len(names), is_finished) == ("SmolLM3, dense", 14, True)
    assert "model.layers.1.mlp.down_proj" in names


_CLIENT = """
import json
from pathlib import Path
from fastapi.testclient import TestClient
from app import create_app
from sarqc.settings import Settings
app = create_app(Settings(state_dir=Path("state"), device="cpu"), with_pages={with_pages})
with TestClient(app, base_url="http://localhost") as client:
    get = client.get
"""


def test_a_page(copy):
    copy.follow("Add a page")
    found = copy.python(
        _CLIENT.format(with_pages=True)
        + """
    page = get("/hello")
    links = [part.split('"')[0] for part in page.text.partition("</head>")[0].split('href="')[1:]]
    script = next(link for link in links if link.endswith("/hello.js"))
    is_in_bar = '<a href="/hello"' in page.text
    studies = len(get("/api/studies").json()["studies"])
    is_mounted = "hello_page.js" in page.text
    print(json.dumps([page.status_code, is_mounted, get(script).text, is_in_bar, studies]))
"""
    )
    status, is_mounted, bundle, is_in_bar, studies = found
    assert (status, is_mounted, is_in_bar) == (200, True, True)
    for name in ("hello/hello_page.js", "base/client.js", "base/html.js", "base/problem.js"):
        assert f'"{name}": ' in bundle
    assert studies > 0
    node = Path(sys.executable).parent / "node"
    module = (copy.folder / "assets/js/hello/hello_page.js").as_uri()
    said = copy.run(
        node, "--input-type=module", "-e", f'import {{ mount }} from "{module}"; console.log(typeof mount);'
    )
    assert said.strip() == "function"


def test_a_figure(copy):
    copy.follow("Add a figure")
    found = copy.python(
        _CLIENT.format(with_pages=False)
        + """
    study = "/api/studies/tiny-llama"
    view = get(f"{study}/view?method=rqc-gbs&bits=2").json()
    figure = view["figures"]["by_block"]
    table = get(f"{study}/tables/by_block?method=rqc-gbs&bits=2").json()
from sarqc import Study
drawn = Study.open("tiny-llama").figure("by_block", method="rqc-gbs", bits=2, lam=0.1)
print(json.dumps([figure, table, view["lams"], [float(y) for y in drawn.data[0].y]]))
"""
    )
    figure, table, lams, drawn = found
    ((at, binding),) = enumerate(figure["bindings"])
    assert (at, binding["path"]) == (0, "data.0.y")
    bars = binding["values"][0][lams.index(0.1)]
    assert len(bars) == len(figure["data"][0]["x"]) > 1
    assert drawn == bars
    assert {column["key"] for column in table["columns"]} == {"lambda", "block", "recon"}
    rows = [row["recon"] for row in table["rows"] if row["lambda"] == 0.1]
    assert rows == pytest.approx(bars, rel=1e-5)  # a drawing has six digits
    copy.run(sys.executable, "docs/make_contract.py")
    assert "Error by block" in (copy.folder / "assets/js/base/contract.js").read_text()
    for script, name in (("lab/lab_page.js", "CURVES"), ("explorer/curves_part.js", "OPTIONAL")):
        text = (copy.folder / "assets/js" / script).read_text()
        values = re.search(rf"^const {name} = (\[.*?\]);", text, re.M | re.S)
        assert "by_block" in ast.literal_eval(values[1])
    assert '_by_block"' not in copy.run(sys.executable, "-c", "import pages.explorer_parts")


def test_a_worker(copy):
    copy.follow("Add a kind of worker")
    found = copy.python("""
import json
from functools import partial
from pathlib import Path
from sarqc.jobs.run import State
from sarqc.jobs.store import Store
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.thread_workers import ThreadWorkers
from sarqc.settings import Settings
from tests.jobs.fake_runs import quick, recipe, slow
from tests.jobs.conftest import until, until_state
ends = []
for number, (work, end) in enumerate(((quick, State.FINISHED), (slow, State.CANCELLED))):
    settings = Settings(state_dir=Path(f"state{number}"), device="cpu", cancel_seconds=5)
    store = Store(settings.database())
    supervisor = Supervisor(store, settings, workers=partial(ThreadWorkers, execute=work))
    supervisor.start()
    run_id = supervisor.submit(recipe(3 if end is State.FINISHED else 60), "ann").id
    if end is State.CANCELLED:
        until(lambda: store.get(run_id).done >= 1)
        supervisor.cancel(run_id)
    run = until_state(store, run_id, end)
    ends.append([run.state, run.done, run.summary, store.events(run_id)[-1].payload["type"]])
    supervisor.stop()
    store.close()
print(json.dumps(ends))
""")
    finished, cancelled = found
    assert finished[:2] == ["finished", 3]
    assert finished[2]["perplexity"] == 12.5
    assert (cancelled[0], cancelled[3]) == ("cancelled", "cancelled")
    assert 1 <= cancelled[1] < 60
    (copy.folder / "typed.py").write_text(
        "from collections.abc import Callable, Iterator\n"
        "from functools import partial\n"
        "from sarqc.events import Event\n"
        "from sarqc.jobs.thread_workers import ThreadWorkers\n"
        "from sarqc.jobs.workers import Message, Workers\n"
        "from sarqc.settings import Settings\n"
        "Deliver = Callable[[Message], None]\n"
        "Execute = Callable[..., Iterator[Event]]\n"
        "def make(settings: Settings, deliver: Deliver, run: Execute) -> Workers:\n"
        "    return ThreadWorkers(settings, deliver, execute=run)\n",
    )
    assert "Success" in copy.run(sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "typed.py")
