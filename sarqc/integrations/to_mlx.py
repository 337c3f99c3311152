"""Why no program is written for MLX.

Read in mlx-lm 0.32, ``mlx_lm.quant.gptq``: 1 % of the mean diagonal is added to each Gram and can't be set; every Gram
is that of the float model on mlx-lm's own text; the grid's bias is an end of the range, with the scale chosen so that 0
is a level.
"""

from __future__ import annotations

from sarqc.integrations.engine_request import EngineRequest
from sarqc.integrations.program import refused


def program(wanted: EngineRequest) -> str:
    """Raises ``Refused``, always."""
    lams = {penalty.lam for penalty in wanted.penalties}
    said = "has λ fixed at 0.01 in mlx_lm.quant.gptq" + (
        ", and its calibration text and its grid can't be chosen either" if lams == {0.01} else ""
    )
    raise refused("MLX", said, "Quantize here, and take the model to MLX.")
