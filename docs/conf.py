"""The documentation as a site: ``make docs``. Pages are those beside this file; the API comes from docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sphinx.application import Sphinx

from sarqc import __version__ as release

project, copyright, author = "sarqc", "", "sarqc"
version = release
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["*.py", "*.json", "*.ipynb", "studies", "every_step.md"]  # the last is part of results.md
html_theme, html_title = "furo", "sarqc"
html_show_copyright = html_show_sphinx = html_copy_source = False
templates_path: list[str] = []

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "ref.python"]  # headings two levels apart; fields of the same name in two classes

napoleon_google_docstring, napoleon_numpy_docstring = True, False
napoleon_use_ivar = True
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_mock_imports = ["llmcompressor", "compressed_tensors", "gptqmodel"]  # engines with environments of their own


def _changelog_as_page(app: Sphinx, path: Path, page: str, content: list[str]) -> None:
    content[0] = content[0].replace("](CHANGELOG.md)", "](changes.md)")  # the README's link


def _tables_and_bars(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Turn the tables of docstrings into lists of rows; elsewhere |x| is an absolute value, not a substitution. In the
    help of a recipe's field a star stands for itself.
    """
    if what == "attribute":
        lines[:] = [line.replace("*", r"\*") for line in lines]
    text: list[str] = []
    in_table = False
    for line in lines:
        if line.startswith("| "):
            if not in_table:
                text += ["", ".. list-table::", "   :header-rows: 1", ""]
            cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
            text += [f"   {'*' if at == 0 else ' '} - {cell}" for at, cell in enumerate(cells)]
        elif not line.startswith("|---"):
            text += [""] if in_table else []
            parts = enumerate(line.split("``"))
            text.append("``".join(part if at % 2 else part.replace("|", r"\|") for at, part in parts))
        in_table = line.startswith("|")
    lines[:] = text


def setup(app: Sphinx) -> None:
    app.connect("include-read", _changelog_as_page)
    app.connect("autodoc-process-docstring", _tables_and_bars)
