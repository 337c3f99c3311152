"""The model card, README.md of an exported model: its quantization, its measurements, and the programs that load it."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from sarqc.checkpoints.formats import Format, describe_answers, tried, who_can_load
from sarqc.documents import FORMAT_WORDS, Summary, distances
from sarqc.recipe import Recipe


def model_card(recipe: Recipe, summary: Summary, checkpoint_format: Format) -> str:
    """Return the card of a finished run in Markdown, with the protocol of every number.

    Of files and folders of this host only the names are given: their paths mean nothing to a reader elsewhere.
    """
    groups = "each output row with one scale" if recipe.group_size is None else f"groups of {recipe.group_size}"
    own, device, versions = f"format: {checkpoint_format}", summary["device"], summary["protocol"]["versions"]
    parts = [
        "---\nlibrary_name: transformers\n---",
        f"# {Path(recipe.model).name}, {recipe.bits} bits, {recipe.method}",
        f"Made by sarqc from `{recipe.model}`" + (f" at `{recipe.revision}`." if recipe.revision else "."),
        "## What was quantized",
        f"The weights of {summary['quantized_layers']} linear layers, {summary['share_quantized']:.1%} of the "
        f"parameters: {recipe.bits} bits, grid {recipe.grid}, {groups}. Everything else is as it was in the "
        f"{'rotated model' if recipe.rotates else 'original'}"
        + (", apart from what took up the channel scales." if _is_folded(recipe) else "")
        + (", apart from the norms, which were tuned." if _tunes_norms(recipe) else "")
        + ("" if _is_folded(recipe) or _tunes_norms(recipe) else "."),
        "" if (rotation := summary.get("rotation")) is None else rotation["words"],
        _weights(summary),
        _per_channel(recipe),
        _starved(recipe, summary),
        f"This folder has the {own}. "
        + (
            "The codes and scales are stored; a loader multiplies them. The weights are those that were measured when "
            "it rounds once, to the dtype of config.json."
            if checkpoint_format != "plain"
            else "The weights are stored as the floating-point numbers that codes and scales stand for, so it is as "
            "large as the original."
        ),
        "## How",
        "```yaml\n" + yaml.safe_dump(recipe.to_json(), sort_keys=False, allow_unicode=True) + "```",
        _chosen(summary),
        "" if (distillation := summary.get("distillation")) is None else distillation["words"],
        f"On {device}, with " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
        "## What was measured",
        _measurements(summary),
        "" if (written := summary.get("written")) is None else f"## Read again\n\n{written['words']}",
        _stamp(summary),
        *(f"Note: {words}." for words in summary["protocol"].get("feeding", {}).values()),
        "## Who can load it",
        f"{tried()}.",
        _table(
            ("format", "readers", ""),
            [
                (
                    f"{row.format} ({FORMAT_WORDS[row.format]})"
                    + (", this folder" if row.format == checkpoint_format else ""),
                    describe_answers(row.readers) if row.possible else "none",
                    row.note,
                )
                for row in who_can_load(
                    recipe,
                    is_mixture=None if summary.get("derived") else summary.get("experts") is not None,
                )
            ],
        ),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    for given in (recipe.model, recipe.calibration, recipe.test):
        if given and Path(given).expanduser().exists():
            text = text.replace(given, Path(given).name)
    return text


def _stamp(summary: Summary) -> str:
    """Return instructions to verify that these are the codes of the recipe."""
    digest = summary.get("stamp")
    if not digest:
        return ""
    return (
        f"## Verification\n\nStamp `{digest}`: `sarqc_stamp.json` has hashes of the float weights, the calibration "
        "tokens and every code. `python -m sarqc verify .` in this folder compares the files with them, solves some "
        "linears again and compares their codes bit by bit."
    )


def _is_folded(recipe: Recipe) -> bool:
    return recipe.to_method().unit == "group"


def _tunes_norms(recipe: Recipe) -> bool:
    return recipe.distills and recipe.distill_norms


def _weights(summary: Summary) -> str:
    """Return the history of the original's weights."""
    words = summary["protocol"].get("weights", "")
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _per_channel(recipe: Recipe) -> str:
    if recipe.group_size is None or recipe.indivisible == "refuse":
        return ""
    return f"Layers whose width {recipe.group_size} does not divide have one scale for each output row."


def _starved(recipe: Recipe, summary: Summary) -> str:
    """Return for a mixture the number of experts with hardly any calibration tokens, and their treatment."""
    experts = summary.get("experts")
    if experts is None:
        return ""
    alone = experts["no_tokens"] > 0 and recipe.to_method().unit != "block"
    return experts["words"] + (" Linears that no token reached are rounded to nearest." if alone else "")


def _chosen(summary: Summary) -> str:
    selection = summary["selection"]
    if selection is None:
        return ""
    if selection["by"] == "model":
        words = f"“auto” chose λ = {selection['lambda']:g} for the whole model, on a part of the calibration text."
    else:
        words = "“auto” chose for each layer by itself, on a part of the calibration text."
    return f"{words} {selection.get('edge', '')}".strip()


def _measurements(summary: Summary) -> str:
    """Return every measured number, quantized beside float, with its protocol; empty without measurements."""
    rows: list[tuple[str, ...]] = []
    protocols: list[tuple[str, Mapping[str, object]]] = []
    protocol = summary["protocol"]["test"]
    if protocol is not None:
        rows.append(
            ("perplexity, " + protocol["corpus"], _number(summary["perplexity"]), _number(summary["perplexity_float"]))
        )
        protocols.append(("Perplexity", protocol))
    rows += [(name, value, "") for name, value in distances(summary)]
    for name, task in summary["tasks"].items():
        both = (task["quantized"], task["float"])
        values = [f"{model['accuracy']:.1%} ± {model['standard_error']:.1%}" for model in both]
        rows.append((f"accuracy, {name}", *values))
        protocols.append((f"Accuracy, {name}", task["protocol"]))
    if speed := summary.get("speed"):
        rates = (speed["quantized"], speed["float"])
        rows.append(("prefill, tokens per second", *(_number(rate and rate["prefill"]) for rate in rates)))
        rows.append(("decoding, tokens per second", *(_number(rate and rate["decode"]) for rate in rates)))
        kernel = {"kernel": speed["kernel"]} if speed["kernel"] else {"quantized": f"not measured, {speed['reason']}"}
        protocols.append(("Speed", {**kernel, **speed["protocol"]}))
    protocols.append(("Calibration", summary["protocol"]["calibration"]))
    measured = _table(("", "quantized", "original"), rows) if rows else "Nothing was measured."
    words = [f"{what}: " + ", ".join(f"{key} {value}" for key, value in facts.items()) for what, facts in protocols]
    if "±" in measured:
        measured += "\n\n± is one standard error: of accuracies over items, else over the windows of the text."
    if baseline := summary.get("baseline"):
        measured += f"\n\n{baseline['words']}"
    return measured + "\n\nProtocols:\n\n" + "\n".join(f"- {line}" for line in words)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.5g}"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
