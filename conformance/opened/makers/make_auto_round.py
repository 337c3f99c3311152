"""A checkpoint by AutoRound, in the format that is asked for."""

import tempfile
from pathlib import Path

from auto_round import AutoRound
from making import job, rows
from transformers import AutoModelForCausalLM, AutoTokenizer


def main() -> None:
    given = job()
    tokenizer = AutoTokenizer.from_pretrained(given["model"])
    model = AutoModelForCausalLM.from_pretrained(given["model"], dtype="auto")
    settings = dict(given["settings"])
    checkpoint_format = settings.pop("format")
    rounder = AutoRound(
        model, tokenizer=tokenizer, dataset=list(rows(given, tokenizer).split(8)), nsamples=given["samples"],
        seqlen=given["length"], device_map="cpu", enable_torch_compile=False, **settings,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(dir=Path(given["target"]).parent) as made:
        rounder.quantize_and_save(f"{made}/model", format=checkpoint_format)
        # It makes a folder of its own within, or takes the one that was said, by version and format.
        (found,) = {path.parent for path in Path(made).rglob("config.json")}
        found.rename(given["target"])


if __name__ == "__main__":
    main()
