"""A checkpoint by mlx-lm's converter, which needs no text."""

import json
import shutil
import tempfile
from pathlib import Path

import mlx.core as mx
from making import job
from mlx_lm.convert import convert


def main() -> None:
    given = job()
    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as made:
        source = shutil.copytree(given["model"], Path(made) / "model")
        described = json.loads((source / "config.json").read_text(encoding="utf-8"))
        described["rope_theta"] = described["rope_parameters"]["rope_theta"]  # as published checkpoints have them
        if "num_local_experts" in described:
            described["num_experts"] = described["num_local_experts"]
        (source / "config.json").write_text(json.dumps(described), encoding="utf-8")
        convert(str(source), given["target"], quantize=True, **given["settings"])


if __name__ == "__main__":
    main()
