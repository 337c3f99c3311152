"""sarqc: the trade-off between reconstruction and weight drift when a language model is quantized.

Public names are imported on first use, so importing sarqc loads neither torch nor gradio.
"""

import importlib
from typing import Any

_WHERE = {
    "Grid": "sarqc.quantization.grid",
    "LayerStatistics": "sarqc.quantization.layer_statistics",
    "method": "sarqc.quantization.methods",
    "quantize_layer": "sarqc.quantization.solve",
    "sweep_layer": "sarqc.quantization.solve",
    "Recipe": "sarqc.recipe",
    "execute": "sarqc.engine.execute",
    "Study": "sarqc.figures.notebook",
    "compare": "sarqc.figures.notebook",
}
_NAMED_THERE = {"Study": "StudyWithFigures"}
__all__ = list(_WHERE)
__version__ = "1.0.0"


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module “sarqc” has no attribute “{name}”")
    return getattr(importlib.import_module(_WHERE[name]), _NAMED_THERE.get(name, name))
