"""Every causal type of the installed transformers from files to files, and docs/models.md: make models."""

import argparse
import json
import platform
import tempfile
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers

from conformance.every_model.check import check
from conformance.every_model.small import TYPES, small_model
from sarqc.errors import SarqcError

ROOT = Path(__file__).resolve().parents[2]
RESULTS, TABLE = Path(__file__).with_name("results.json"), ROOT / "docs" / "models.md"


def main() -> None:
    """Entry of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="types; the table keeps the results of the others")
    chosen = parser.parse_args().only
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    if chosen:
        rows = json.loads(RESULTS.read_text(encoding="utf-8"))["types"]
    for model_type in chosen or TYPES:
        rows[model_type] = _row(model_type)
        print(model_type, rows[model_type], flush=True)
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "transformers": version("transformers"), "torch": version("torch"), "processor": platform.machine(),
        "types": dict(sorted(rows.items())),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(table(document), encoding="utf-8")


def _row(model_type: str) -> dict[str, Any]:
    """What became of a type: passed, refused, failed or not built, with numbers or the reason."""
    try:
        small_model(model_type)
    except Exception as error:  # every architecture raises what it likes
        return {"result": "not built", "why": _words(error)}
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = check(model_type, Path(folder), ROOT / "assets" / "models" / "tiny-llama")
        except SarqcError as error:
            return {"result": "refused", "why": error.what}
        except Exception as error:
            return {"result": "failed", "why": _words(error)}
    passed = "passed" if outcome.other_rows == 0 else "failed"
    return {
        "result": passed, "linears": outcome.linears, "share": round(outcome.share, 4), "rows": outcome.rows,
        "other_rows": outcome.other_rows, "refusal": outcome.refusal,
    }  # fmt: skip


def _words(error: Exception) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"[:200]


_PLAIN = str.maketrans({"|": "/", "`": "“"})


def table(document: dict[str, Any]) -> str:
    """Return docs/models.md."""
    types = document["types"]
    count = {result: sum(row["result"] == result for row in types.values())
             for result in ("passed", "refused", "failed", "not built")}  # fmt: skip
    compared = sum(row.get("rows", 0) for row in types.values())
    lines = [
        "# Models",
        "",
        f"Written by `make models` on {document['date']} with transformers {document['transformers']} and PyTorch "
        f"{document['torch']}.",
        "",
        "Any decoder of transformers can be quantized if its blocks, run one by one, give the model's own logits. "
        "Which linears a block has, and which of them read the same tensor, is derived from config.json; see "
        "[algorithms](algorithms.md). For this table a small random model of each causal type is made: four blocks "
        "of width 64, with every kind of block that the default configuration has. It is saved, read, admitted, "
        "quantized to 3 bits in groups of 16 by the column solver, by a scale search and by learned rounding, "
        "measured, exported, and loaded again by transformers. The column solver's codes are compared row by row with "
        "the printed algorithm in float64, on inputs that plain hooks collect from a whole forward pass; rows with a "
        "rounding tie are left out.",
        "",
        f"**{count['passed']} of {len(types)} types pass**, with {compared:,} rows of codes equal to the reference. "
        f"{count['refused']} are refused and {count['failed']} fail. Of {count['not built']} no small model could be "
        "built, which says nothing of the type.",
        "",
        "| type | result | linears | of the blocks' parameters | rows compared | refused |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in types.items():
        numbers = ["", "", ""]
        if "linears" in row:
            numbers = [str(row["linears"]), f"{row['share']:.1%}", f"{row['rows']:,}"]
        why = row.get("why", "") or (f"{row['other_rows']} rows differ" if row.get("other_rows") else "")
        if row.get("refusal"):
            why = f"learned rounding: {row['refusal']}"
        lines.append(f"| {name} | {row['result']} | {' | '.join(numbers)} | {why.translate(_PLAIN)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
