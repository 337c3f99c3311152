"""The part of docs/results.md about other engines: our own comparison, from docs/engines.json, and published numbers.

The file is written by ``python -m benchmarks.quality --write docs/engines.json``, which takes hours.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from make_reference import table

from benchmarks.quality.contenders import BASELINE, CONTENDERS, RIVAL
from benchmarks.quality.table import difference, ratio, table_of

NUMBERS = Path(__file__).parent / "engines.json"
OURS = ("rqc-natural", "rqc-everything")
EFFORTS = ("balanced", "best-scales", "best-scales-affine", "best", "best-affine")
# GPTQ of other engines takes about as long as `balanced`; 1,000 iterations are AutoRound's recipe for the best quality.
OTHERS = (("balanced", "llmcompressor-gptq"), ("balanced", "gptqmodel"), ("best", "auto-round-1000"))
PLANNED = ("tiny-llama", "tiny-moe", "stories260K")  # each at 2, 3 and 4 bits

# LLaMA-2-7B, WikiText-2, windows of 2048 tokens, weights only, groups of 128: W3, W2, and where it is printed.
_MAGR = "MagR (arXiv 2406.00800), table 3"
_PAPER = "SARQC (arXiv 2605.05693)"
PUBLISHED = (
    ("Float", "5.47", "5.47", "all of them"),
    ("Round to nearest", "6.66", "–", _MAGR),
    ("GPTQ", "6.29", "36.77", _MAGR),
    ("AWQ, with TesseraQ's clipping at 2 bits", "6.24", "14.65", f"{_MAGR}; 2 bits: TesseraQ (arXiv 2410.19103)"),
    ("OmniQuant", "6.03", "11.06", _MAGR),
    ("MagR with GPTQ", "6.00", "9.94", _MAGR),
    ("EfficientQAT", "5.81", "7.17", "OpenGVLab/EfficientQAT, README"),
    ("TesseraQ", "5.71", "6.82", "Intelligent-Computing-Lab-Yale/TesseraQ, README"),
    ("GPTQ, as the SARQC paper has it", "6.80", "1889.54", _PAPER),
    ("GPTAQ, as the SARQC paper has it", "6.65", "358.46", _PAPER),
    ("SARQC-GBS, identity", "7.49", "396.52", _PAPER),
    ("SARQC-GBS, saliency", "6.63", "225.01", _PAPER),
)


def parts() -> list[str]:
    """Paragraphs, tables and headings, in order."""
    summary = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return [*_compared(summary), *_same_codes(summary["same_codes"]), *_published()]


def _compared(summary: Mapping[str, Any]) -> Iterator[str]:
    yield "## Other engines on the same tokens"
    yield (
        "Written by `python -m benchmarks.quality`: each engine calibrates in an environment of its own on the "
        "same tokens, and one evaluator, ours, measures all of them: the codes that an engine left are dequantized by "
        "the definition of its format, rounded to the dtype of the checkpoint and put into the float model. "
        f"Made on {summary['host']}, with {_versions(summary['versions'])}."
    )
    yield (
        "All grids are asymmetric, with min–max ranges where a row does not say otherwise. “Everything on” is a "
        "searched range, activation order, λ = 0.1 and three passes of refinement; “all but the order” takes columns "
        "as they are stored. llm-compressor takes columns in activation order with static groups and 1 % damping; "
        "GPTQModel reorders columns and whole groups, with 5 % damping; AutoRound learns offsets and ranges by the "
        "sign of the gradient, in bfloat16 on a processor that has it, and is not compiled here. Its export to GPTQ's "
        "format, in which its rows on tiny-llama and tiny-moe were read, writes 1 for a zero point of 0. Both had none "
        "at 2 bits, where one draw of each was looked at; on SmolLM2 at 2 bits, after one iteration on 8 × 256 tokens, "
        "87 of 210 linears had some, so its rows there are read in its own format, which holds them. The others "
        "compute in float32. While it traces a mixture, llm-compressor 0.14 loses the "
        "causal mask, so that calibration looks ahead: it is handed the whole mask here, as "
        "[our programs for it](engines.md) do; its perplexity and KL on tiny-moe were measured again for that, its "
        "times are those of before. Differences are "
        "of perplexity, paired over draws, in brackets their 95 % interval (Student's t); “better” or “worse” stands "
        "where that excludes 0. Nothing is corrected for the number of comparisons; without brackets there was one "
        "draw. KL is that of the float model's "
        "predictions to the quantized one's, the mean of a token. Times are processor seconds of the calibration "
        "alone, loading and saving excluded, as geometric means of ratios within a draw: the host was busy with other "
        "work, which a clock on the wall would count too."
    )
    if absent := list(_not_made(summary["models"])):
        yield f"Not made yet, for time: {'; '.join(absent)}. Rows say where they have fewer draws than others."
    yield from _efforts(summary["models"])
    for model, of_model in summary["models"].items():
        protocol = of_model["protocol"]
        where = ""
        if "host" in of_model:
            where = f" Made on {of_model['host']}, with {_versions(of_model['versions'])}."
        group = f"Groups of {protocol['group_size']}" if protocol["group_size"] else "One group for a whole row"
        yield f"### {model}"
        yield (
            f"{group}; {protocol['samples']} × {protocol['length']} tokens of {protocol['calibration']}; perplexity on "
            f"{protocol['predicted_tokens']:,} tokens of {protocol['test']} in windows of {protocol['window']} (float: "
            f"{protocol['perplexity_float']:.2f}); {protocol['threads']} thread"
            f"{'s' if protocol['threads'] > 1 else ''}{_device(protocol)}.{where}"
            f"{' ' + of_model['note'] if 'note' in of_model else ''}"
        )
        for bits, contenders in of_model["widths"].items():
            yield f"#### {bits} bits"
            yield table_of(contenders)
            if sentences := list(_beside(contenders, is_whole="host" not in of_model)):
                yield " ".join(sentences)


def _efforts(models: Mapping[str, Any]) -> Iterator[str]:
    """Efforts beside the rival, and beside what other engines have for less time or for more."""
    head = ["", "bits", "tokens measured", "effort", "beside", "perplexity", "KL", "time"]
    if rows := _paired_rows(models, itertools.product(EFFORTS, [RIVAL])):
        yield "### Efforts beside AutoRound's default"
        yield (
            "From the tables below, with the same tokens and the same draws for both. Times are given where both were "
            "measured on one host. “Codes kept” is the effort best without `distill_codes`."
        )
        yield table([*head[:4], *head[5:]], [[*row[:4], *row[5:]] for row in rows])
    if rows := _paired_rows(models, OTHERS):
        yield "### Efforts beside other engines' GPTQ and AutoRound's best"
        yield "From the same tables in the same way."
        yield table(head, rows)


def _paired_rows(models: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """A row for each model, width and pair of contenders that were measured together."""
    pairs = list(pairs)
    rows = [
        [
            model.split(":")[0],
            bits,
            f"{of_model['protocol']['predicted_tokens']:,}",
            *(CONTENDERS[name].title.removeprefix("sarqc: effort ") for name in pair),
            *_difference(*(contenders[name] for name in pair)),
        ]
        for model, of_model in models.items()
        for bits, contenders in of_model["widths"].items()
        for pair in pairs
        if all("failed" not in contenders.get(name, {"failed": ""}) for name in pair)
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))  # of one model and width side by side


def _difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Perplexity, KL and time of one contender beside another's."""
    return [difference(ours, theirs), difference(ours, theirs, "kl", 4), ratio(ours, theirs)]


def _not_made(models: Mapping[str, Any]) -> Iterator[str]:
    for model in PLANNED:
        widths = models.get(model, {"widths": {}})["widths"]
        bits = [width for width in ("2", "3", "4") if width not in widths]
        if bits:
            yield f"{model} at {', '.join(bits)} bits"


def _device(protocol: Mapping[str, Any]) -> str:
    """The GPU of a comparison on one, and what its times are."""
    device = protocol.get("device")
    return "" if device is None else f"; engines and evaluator on one {device}, times are seconds on the wall"


def _versions(versions: Mapping[str, Mapping[str, str]]) -> str:
    return "; ".join(
        ", ".join(f"{package} {version}" for package, version in of_engine.items()) for of_engine in versions.values()
    )


def _beside(contenders: Mapping[str, Any], *, is_whole: bool) -> Iterator[str]:
    """What the table says of everything on and of all but the order, and who is missing in a comparison of all."""
    others = (RIVAL, "AutoRound's default"), (BASELINE, "our GPTQ 1 %")
    for name, (other, words) in itertools.product(OURS, others):
        ours = contenders.get(name, {"failed": ""})
        if "failed" not in ours and "failed" not in contenders.get(other, {"failed": ""}):
            of_perplexity = difference(ours, contenders[other])
            of_kl = difference(ours, contenders[other], "kl", 4)
            title = CONTENDERS[name].title.removeprefix("sarqc: ")
            yield (
                f"{title}, beside {words}: perplexity {of_perplexity}; KL {of_kl}; {ratio(ours, contenders[other])} "
                "its time."
            )
    absent = [entry.title for name, entry in CONTENDERS.items() if name not in contenders]
    if absent and is_whole:
        yield f"Not run, for time: {'; '.join(absent)}."


def _same_codes(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "### The same codes as llm-compressor's"
    yield (
        "Written by `python -m benchmarks.quality.same_codes`: our column solver with identity and "
        "llm-compressor's GPTQ on one draw of the tokens above, both with activation order, static groups of 128, the "
        f"same damping ({rows[0]['lam']:.0%}) and grid, weights and scales in float32."
    )
    head = [
        "",
        "grid",
        "inputs of a layer from",
        "equal codes",
        "in the worst layer",
        "layers equal throughout",
        "rows with another code",
        "from float64: ours",
        "from float64: theirs",
    ]
    yield table(head, [_row_of_codes(row) for row in rows])
    yield (
        "On the same inputs codes differ in a few rows alone: float32 puts a weight to the other side of a tie, and "
        "the columns after it in that row make up for another error. That it is float32's rounding the last two "
        "columns say, which count the rows that differ from the same layers solved in float64 (we factor the Gram, "
        "llm-compressor its inverse). With inputs from the quantized prefix the first block is as on the same inputs; "
        "from the second on the inputs themselves are others, and shares of equal codes fall block by block "
        f"({_blocks(rows)}), though both are the same method."
    )


def _row_of_codes(row: Mapping[str, Any]) -> list[str]:
    from_float64 = [str(row.get(f"{who}_to_float64", "–")) for who in ("ours", "theirs")]
    return [
        f"W{row['bits']}",
        row["grid"].replace("_", " "),
        f"the {row['inputs']} model",
        f"{row['share']:.3%}",
        f"{row['share_of_worst']:.2%}",
        f"{row['whole_layers']} of {row['layers']}",
        f"{row['rows_apart']:,} of {row['rows']:,}",
        *from_float64,
    ]


def _blocks(rows: list[Mapping[str, Any]]) -> str:
    first = next(row for row in rows if row["inputs"] == "quantized")
    return f"W{first['bits']}: " + ", ".join(f"{share:.1%}" for share in first["blocks"])


def _published() -> list[str]:
    return [
        "## What is published for LLaMA-2-7B",
        "Perplexity on WikiText-2 in windows of 2,048 tokens, weights only, groups of 128. Nothing here was measured "
        "by this project. Grids and protocols differ: the SARQC paper's grid is symmetric with the scale "
        "absmax/(2^(b−1) − 1), nearly ternary at 2 bits, where the others take asymmetric or learned ranges; nor are "
        "calibration texts, their lengths and what is trained the same (EfficientQAT trains the whole model's scales). "
        "So the rows rank methods together with their grids; at 2 bits the grid weighs most.",
        table(["", "W3", "W2", "source"], [list(row) for row in PUBLISHED]),
    ]
