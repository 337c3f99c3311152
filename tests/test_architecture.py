"""The direction of imports, enforced: a tree of packages in which strangers stay strangers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each package or module, and all that it may import of the others. Whatever is not listed is a stranger.
GROUND = {"sarqc.errors", "sarqc.documents", "sarqc.plain", "sarqc.settings", "sarqc.events", "sarqc.files"}
GROUND |= {"sarqc.recipe", "sarqc.logs"}
TREE = {
    "sarqc.errors": set(),
    "sarqc.documents": set(),
    "sarqc.plain": set(),
    "sarqc.files": {"sarqc.errors"},
    "sarqc.settings": {"sarqc.errors"},
    "sarqc.logs": {"sarqc.files", "sarqc.settings"},
    "sarqc.events": {"sarqc.errors", "sarqc.documents"},
    "sarqc.quantization": {"sarqc.errors"},
    "sarqc.recipe": {"sarqc.errors", "sarqc.quantization", "sarqc.files"},
    "sarqc.models": {"sarqc.errors", "sarqc.settings", "sarqc.files", "sarqc.plain"},
    "sarqc.calibration": GROUND | {"sarqc.quantization", "sarqc.models"},
    "sarqc.evaluation": GROUND | {"sarqc.quantization", "sarqc.models"},
    "sarqc.checkpoints": GROUND | {"sarqc.quantization", "sarqc.models"},
    "sarqc.study": GROUND | {"sarqc.quantization", "sarqc.models"},
    "sarqc.figures": GROUND | {"sarqc.quantization", "sarqc.models", "sarqc.study"},
    "sarqc.engine": GROUND
    | {"sarqc.quantization", "sarqc.models", "sarqc.study"}
    | {"sarqc.calibration", "sarqc.evaluation", "sarqc.checkpoints"},
    "sarqc.jobs": GROUND | {"sarqc.checkpoints", "sarqc.study"},
    "sarqc.web": GROUND
    | {"sarqc.quantization", "sarqc.models", "sarqc.study", "sarqc.figures"}
    | {"sarqc.calibration.corpora", "sarqc.calibration.text_files"}
    | {"sarqc.engine.plan", "sarqc.jobs"},
    "sarqc.terminal": {"sarqc.errors", "sarqc.documents", "sarqc.events", "sarqc.figures", "sarqc.files.room"}
    | {"sarqc.plain"},
    "sarqc.__main__": GROUND
    | {"sarqc.quantization", "sarqc.models", "sarqc.checkpoints", "sarqc.study", "sarqc.engine", "sarqc.terminal"}
    | {"sarqc.jobs", "sarqc.extras"},
    "sarqc.extras": {"sarqc.errors", "sarqc.events", "sarqc.settings", "sarqc.jobs", "sarqc.web"},
    "sarqc.extras.classroom": GROUND | {"sarqc.jobs", "sarqc.web", "sarqc.extras", "pages"},
    "sarqc.extras.engines": GROUND | {"sarqc.quantization", "sarqc.study", "sarqc.calibration.corpora", "sarqc.extras"},
    "sarqc.extras.host": GROUND
    | {"sarqc.quantization", "sarqc.models", "sarqc.evaluation", "sarqc.engine"}
    | {"sarqc.jobs", "sarqc.web", "sarqc.extras", "sarqc.terminal"},
    "sarqc.extras.page_model": GROUND | {"sarqc.quantization", "sarqc.study", "sarqc.engine", "sarqc.extras"},
    "sarqc.extras.publish": GROUND | {"sarqc.study", "sarqc.figures", "sarqc.web", "sarqc.extras", "pages"},
    "sarqc.extras.mlflow": GROUND | {"sarqc.extras"},
    "sarqc.extras.survey": GROUND
    | {"sarqc.quantization", "sarqc.models", "sarqc.calibration", "sarqc.evaluation", "sarqc.study", "sarqc.engine"}
    | {"sarqc.extras"},
    "sarqc.extras.storage": GROUND | {"sarqc.extras"},
    "sarqc.extras.verify": GROUND
    | {"sarqc.models", "sarqc.calibration", "sarqc.checkpoints", "sarqc.study", "sarqc.engine"}
    | {"sarqc.extras", "sarqc.terminal"},
    "pages": GROUND | {"sarqc.quantization", "sarqc.web"},
    "app": GROUND | {"sarqc.jobs", "sarqc.web", "sarqc.extras", "pages"},
}


def package_of(module: str) -> str | None:
    """The longest name of ``TREE`` that a module belongs to."""
    names = [name for name in TREE if module == name or module.startswith(f"{name}.")]
    return max(names, key=len) if names else None


def modules() -> dict[str, Path]:
    files = [*ROOT.glob("sarqc/**/*.py"), *ROOT.glob("pages/**/*.py"), ROOT / "app.py"]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
        if "__pycache__" not in path.parts
    }


def imports_of(path: Path) -> set[str]:
    """Names of all modules imported anywhere in a file, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.thorough
def test_a_public_class_has_a_name_of_its_own():
    places = {}
    for path in sorted((ROOT / "sarqc").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 200
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_module_has_a_place():
    assert [name for name in modules() if package_of(name) is None and name != "sarqc"] == []


def test_the_tree_has_no_circle():
    def below(name, above):
        assert name not in above, f"{' imports '.join(above)} imports {name}"
        for package in {package_of(imported) or imported for imported in TREE[name]}:
            below(package, (*above, name))

    for name in TREE:
        below(name, ())


def test_the_core_never_imports_an_extra():
    """``app.py`` and the command line ask ``sarqc.extras`` for those that are installed."""
    extras = {name for name in modules() if name.startswith("sarqc.extras.")}
    for name, path in modules().items():
        if name not in extras:
            used = imports_of(path)
            assert not used & extras, name
            assert "sarqc.extras" not in used or name in ("app", "sarqc.__main__"), name


@pytest.mark.thorough
def test_imports_follow_the_tree():
    wrong = []
    for name, path in modules().items():
        here = package_of(name)
        if here is None:
            continue
        for imported in imports_of(path):
            there = package_of(imported)
            if there is None or there == here:
                continue
            allowed = any(imported == place or imported.startswith(f"{place}.") for place in TREE[here])
            parent = any(place.startswith(f"{imported}.") for place in TREE[here])  # from sarqc.engine import plan
            if not (allowed or parent):
                wrong.append(f"{name} imports {imported}")
    assert wrong == []


def test_no_script_shares_its_name_with_a_module():
    scripts = {path.stem for path in (ROOT / "assets" / "js").rglob("*.js")}
    both = scripts & {path.stem for path in modules().values()}
    assert both == set()


def test_the_queue_needs_no_web_framework():
    for path in (ROOT / "sarqc" / "jobs").glob("*.py"):
        strangers = {name.split(".")[0] for name in imports_of(path)} & {"fastapi", "starlette", "uvicorn", "gradio"}
        assert strangers == set(), path.name


def test_quantization_knows_torch_errors_and_words_only():
    usual = ("torch", "sarqc.errors", "sarqc.quantization", *sys.stdlib_module_names)
    for path in (ROOT / "sarqc" / "quantization").glob("*.py"):
        allowed = (*usual, "triton") if path.stem == "column_kernels" else usual
        for imported in imports_of(path):
            assert imported.split(".")[0] in allowed or imported.startswith(allowed), f"{path.name} imports {imported}"


_QUANTIZING_WITH_TORCH_ALONE = """
import sys, torch

class Refusing:
    own = ("sarqc.errors", "sarqc.quantization")
    known = {*sys.stdlib_module_names, *(name.partition(".")[0] for name in sys.modules)}  # torch's own needs

    def find_spec(self, name, path=None, target=None):
        is_own = name == "sarqc" or any(f"{name}.".startswith(f"{own}.") for own in self.own)
        if not is_own and name.partition(".")[0] not in self.known:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refusing())
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer

torch.manual_seed(0)
statistics = LayerStatistics.from_inputs(torch.randn(64, 32))
layer = quantize_layer(torch.randn(16, 32), statistics, Grid(3, 16, "symmetric"), method("sarqc-gbs", refine=1))
print(tuple(layer.codes.shape))
"""


def test_quantization_needs_torch_alone():
    command = [sys.executable, "-c", _QUANTIZING_WITH_TORCH_ALONE]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "(16, 32)"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("sarqc", ("torch", "gradio", "pydantic")),
        ("sarqc.engine.plan", ("torch", "gradio", "plotly", "lm_eval", "transformers")),
        ("sarqc.checkpoints.layout", ("torch", "transformers")),
        ("sarqc.figures", ("torch", "gradio", "plotly", "pandas")),
        ("sarqc.figures.notebook", ("torch", "gradio", "plotly", "pandas")),
        ("sarqc.web.api", ("torch", "gradio", "lm_eval", "plotly", "pandas")),
        ("sarqc.engine.execute", ("gradio", "plotly", "lm_eval")),
        ("sarqc.jobs.supervisor", ("torch", "fsspec", "aiohttp")),
    ],
)
def test_heavy_libraries_are_loaded_where_they_are_used(module, absent):
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.thorough
def test_no_model_is_known_by_its_name_in_code():
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.In) for op in node.ops):
                left = node.left
                assert not (isinstance(left, ast.Constant) and left.value in ("llama", "mistral", "qwen")), name
