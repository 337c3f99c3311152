"""Every place where an expression, a template or a format could come from outside, and why each is safe.

``re`` backtracks, ``str.format`` reaches into objects, templates and evaluators run what they are given: of what comes
from a request, a checkpoint, a study or a text none may get there. Constants are safe by themselves; each other place
is listed here with its reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from re import _parser
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py")), *sorted((ROOT / "sarqc").rglob("*.py"))]
OF_RE = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
OF_PATHS = {"glob", "rglob"}
EVALUATORS = {"eval", "exec", "compile", "__import__", "literal_eval", "import_module", "run_path", "run_module"}
TEMPLATES = {"Template", "from_string", "apply_chat_template", "chat_template", "vformat", "Environment"}
TOKENIZERS = {"Tokenizer.from_file", "Tokenizer.from_str", "AutoTokenizer.from_pretrained"}
UNPICKLERS = {"pickle.load", "pickle.loads", "torch.load", "yaml.load", "marshal.loads", "np.load", "joblib.load"}
MODULES = {
    "re", "string", "fnmatch", "jinja2", "mako", "pickle", "marshal", "dill", "cloudpickle", "regex", "sre_parse",
    "sre_compile",
}  # fmt: skip

SPEC = "the number of decimals, or the width, is made here and has a limit"
ALLOWED = {
    # Regular expressions
    ("sarqc/checkpoints/patterns.py", "re.compile(pattern)"): "in a process of its own, with limits",
    ("sarqc/files/kept_out.py", "re.compile(pattern)"): "a loop over the constants that stand beside it",
    ("sarqc/files/kept_out.py", r"re.compile('(?<![\\w.:/<~-])(?:~|/)[\\w.@+-]+(?:/[\\w.@+ -]*[\\w.@+-])+/?')"):
        "each repetition begins with a slash, which is not within one",
    ("sarqc/models/promised.py", "re.search(pattern, name)"): "of transformers' own classes; a file gives the name",
    ("sarqc/models/checkpoint.py", "from fnmatch import fnmatchcase"):
        "each * is an atomic group: what it matched is not tried again in another way",
    ("sarqc/extras/engines/engine_request.py", r"re.compile('\\w+(\\.\\w+)*', re.ASCII)"):
        "each repetition begins with a dot, which is not within one",
    ("sarqc/extras/engines/gptqmodel.py", "re.compile(pattern)"): "in GPTQModel's process, of whoever calls it",
    # Formats
    ("sarqc/extras/host/exchanges.py", "form.format(…)"):
        "a route's own path; a value is put into it by its name and not looked into",
    ("sarqc/extras/host/commands.py", "{name:<{width}}"): SPEC,
    ("sarqc/engine/screening.py", "{blocks.index(block):0{digits}b}"): SPEC,
    ("sarqc/checkpoints/model_card.py", "{numbers[name]:{form}}"): "a constant where it is called",
    ("sarqc/checkpoints/model_card.py", "{error:{form}}"): "a constant where it is called",
    ("sarqc/figures/inspector.py", "{end - math.copysign(min(head, abs(way)), way):.{digits}f}"): SPEC,
    ("sarqc/figures/inspector.py", "{start:.{digits}f}"): SPEC,
    ("sarqc/figures/inspector.py", "{end:.{digits}f}"): SPEC,
    ("sarqc/figures/inspector.py", "{y:.{digits}f}"): SPEC,
    ("sarqc/study/intervals.py", "{value:,.{decimals}f}"): SPEC,
    ("sarqc/study/intervals.py", "{value:.{digits - 1}e}"): SPEC,
    ("sarqc/terminal.py", "{cell:<{width}}"): SPEC,
    ("sarqc/terminal.py", "{value:{form}}"): "a constant where it is called",
    ("sarqc/terminal.py", "{error:{form}}"): "a constant where it is called",
    ("sarqc/web/sign_in.py", "_PAGE.format(…)"): "put together of constants",
    # Names of files
    ("sarqc/files/scratch.py", "parent.glob(f'{kind}-*')"): "a constant where it is called, and a star",
    ("sarqc/models/tokenizing.py", "folder.glob(pattern)"): "constants of this module",
    ("sarqc/models/tensor_files.py", "folder.glob(pattern)"): "a loop over the constants that stand beside it",
    ("sarqc/extras/mlflow/reporting.py", "Path(saved.path).glob(_FILES[saved.what])"): "one of the constants of _FILES",
    ("sarqc/web/static.py", "(folder / name).rglob(f'*{suffix}')"): "the constants of FOLDERS",
    ("sarqc/web/uploads.py", "root.glob(pattern)"): "a loop over the constants of LEFTOVERS",
    # Code by name
    ("sarqc/__init__.py", "importlib.import_module(_WHERE[name])"): "one of the constants of _WHERE",
    ("sarqc/files/limited.py", "importlib.import_module(module)"): "a constant of the app's code that asks",
    ("sarqc/jobs/child.py", "importlib.import_module(name)"): "of the app's own command line, in a worker",
    ("sarqc/quantization/solve.py", "importlib.import_module(method.solver)"): "a constant of the method's class",
    ("sarqc/extras/__init__.py", "importlib.import_module(f'{__name__}.{name}')"): "the modules of this folder",
    ("sarqc/files/yaml_document.py", "yaml.load(path.read_text(encoding='utf-8'), _Loader)"):
        "a safe loader: numbers, text, lists and mappings alone",
    # Tokenizers, whose files have expressions too
    ("sarqc/models/tokenizing.py", "Tokenizer.from_file(path)"): "in a process with limits, or in a worker after that",
    ("sarqc/models/tokenizing.py",
     "AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)"):
        "in a process with limits, or in a worker",
    ("sarqc/models/gguf_unpacking.py",
     "AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)"):
        "in a worker, and GGUF files have no expressions: those of the library are taken",
    ("sarqc/models/chats.py",
     "tokenizer.apply_chat_template(chat['messages'], tools=chat.get('tools'), tokenize=False)"):
        "in transformers' sandbox, in a process of its own, with limits",
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[str]:
    """What is done with an expression, a template or a format that is not a constant, as code."""
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_text(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_suspect(node, constants):
            is_format = ast.unparse(node.func).endswith(".format")  # what is put into it matters less, and changes more
            yield f"{ast.unparse(node.func)}(…)" if is_format else ast.unparse(node)
        elif isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            if not all(isinstance(part, ast.Constant) for part in node.format_spec.values):
                yield ast.unparse(ast.JoinedStr([node]))[2:-1]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            if isinstance(node.right, ast.Tuple | ast.Dict) and not _is_text(node.left):
                yield ast.unparse(node)
        elif isinstance(node, ast.Import | ast.ImportFrom) and _imports(node) & MODULES:
            yield ast.unparse(node)


def _imports(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Packages that a statement imports, or from which it imports names."""
    if isinstance(node, ast.Import):
        return {name.name.split(".")[0] for name in node.names} - {"re", "string"}
    return {(node.module or "").split(".")[0]}


def _is_suspect(call: ast.Call, constants: set[str]) -> bool:
    whole = ast.unparse(call.func)
    owner, _, name = whole.rpartition(".")
    first = call.args[0] if call.args else None
    if owner == "re" and name in OF_RE:
        return not _is_text(first) or _may_explode(first.value)
    if owner == "_parser" or whole in UNPICKLERS | TOKENIZERS or name in TEMPLATES:
        return True
    if name in EVALUATORS and owner in ("", "ast", "importlib"):
        return True
    if name in ("format", "format_map") and isinstance(call.func, ast.Attribute):
        return not _is_text(call.func.value) and owner not in constants
    if name in ("strftime", "strptime", "attrgetter", "methodcaller"):
        return not any(_is_text(argument) for argument in call.args)
    if whole == "format":
        return len(call.args) > 1 and not _is_text(call.args[1])
    return bool(owner) and name in OF_PATHS and not _is_text(first)


def _is_text(node: ast.AST | None):
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _may_explode(pattern: str | bytes) -> bool:
    """Whether a constant expression has a repetition within a repetition, each without an end."""
    return any(_repeats_within(_parser.parse(pattern)))


def _repeats_within(tree, is_within: bool = False) -> Iterator[bool]:
    for op, value in tree:
        endless = str(op) in ("MAX_REPEAT", "MIN_REPEAT") and value[1] > 1000
        yield endless and is_within
        for part in _trees(value):
            yield from _repeats_within(part, is_within or endless)


def _trees(value) -> Iterator[Any]:
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _trees(part)


@pytest.mark.thorough
def test_each_expression_from_outside_is_known():
    there = {(str(path.relative_to(ROOT)), place) for path in FILES for place in places(ast.parse(path.read_text()))}
    assert there - ALLOWED.keys() == set(), "say in ALLOWED why it is safe, or make it so"
    assert ALLOWED.keys() - there == set(), "these are gone"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("re.match(pattern, name)", 1),
        ("re.compile('a.*b').match(name)", 0),
        (r"re.compile('([a-z._0-9]+)+X$')", 1),
        (r"re.compile('(a+|b)*')", 1),
        ("from re import compile", 1),
        ("from string import Template", 1),
        ("import jinja2", 1),
        ("'{} of {}'.format(a, b)", 0),
        ("_FORM = '{}'\n_FORM.format(a)", 0),
        ("form.format(a)", 1),
        ("form % (a, b)", 1),
        ("'%s %s' % (a, b)", 0),
        ("f'{a:.2f}'", 0),
        ("f'{a:{b}}'", 1),
        ("format(a, b)", 1),
        ("eval(a)", 1),
        ("ast.literal_eval(a)", 1),
        ("tokenizer.apply_chat_template(a)", 1),
        ("pickle.loads(a)", 1),
        ("folder.glob(name)", 1),
        ("folder.glob('*.txt')", 0),
    ],
)
def test_such_places_are_seen(code, number):
    assert len(list(places(ast.parse(code)))) == number
