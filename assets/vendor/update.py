"""Copies the scripts of others from the installed packages (``npm install``) to this folder.

    python assets/vendor/update.py

For each script that pages import, a declaration beside it lends it the types of the package.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = HERE.parents[1] / "node_modules"
PUBLISHED = "lit-html/node"  # the build that can be imported without a document too
# What pages import, then what these import.
SCRIPTS = ("lit-html.js", "directives/repeat.js", "directive.js", "directive-helpers.js")
IMPORTED = SCRIPTS[:2]
TOKENIZERS = "@huggingface/tokenizers"  # minified by its package, without imports of its own


def copies() -> dict[Path, bytes]:
    """Every file that belongs below this folder, by its path here, with its content."""
    ours = Path("lit-html")
    files = {ours / "LICENSE": (PACKAGES / "lit-html" / "LICENSE").read_bytes()}
    for script in SCRIPTS:
        files[ours / script] = (PACKAGES / PUBLISHED / script).read_bytes()
    for script in IMPORTED:
        name = "lit-html" if script == "lit-html.js" else f"lit-html/{script}"
        files[(ours / script).with_suffix(".d.ts")] = f'export * from "{name}";\n'.encode()
    tokens, tokenizers = Path("tokenizers"), PACKAGES / TOKENIZERS
    files[tokens / "LICENSE"] = (tokenizers / "LICENSE").read_bytes()
    files[tokens / "tokenizers.js"] = (tokenizers / "dist" / "tokenizers.min.mjs").read_bytes()
    files[tokens / "tokenizers.d.ts"] = f'export * from "{TOKENIZERS}";\n'.encode()
    return files


def main() -> None:
    for path, content in copies().items():
        target = HERE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


if __name__ == "__main__":
    main()
