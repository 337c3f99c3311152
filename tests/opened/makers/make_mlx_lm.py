"""A checkpoint by mlx-lm's converter, which needs no text."""

from __future__ import annotations

import mlx.core as mx
from making import job
from mlx_lm.convert import convert


def main() -> None:
    given = job()
    mx.set_default_device(mx.cpu)
    convert(given["model"], given["target"], quantize=True, **given["settings"])


if __name__ == "__main__":
    main()
