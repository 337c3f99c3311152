"""Places of codes in MLX's format: ``weight``, ``scales`` and ``biases``, experts stacked; no torch."""

from collections.abc import Mapping
from typing import Any

from sarqc.checkpoints.stored_linear import TOGETHER, Headers, Scheme, StoredLinear, groups_of

_BITS = (2, 3, 4, 5, 6, 8)
_AFFINE = "Convert it again with the mode affine."


class Mlx:
    """Linears by their shapes, as mlx-lm reads those that its configuration does not name; mode affine alone."""

    def __init__(self, headers: Headers, config: Mapping[str, Any]) -> None:
        self._headers = headers
        for settings in (config, *(value for value in config.values() if isinstance(value, dict))):
            if (mode := settings.get("mode", "affine")) != "affine":
                raise headers.refused(f"its codes are of the mode “{mode}”", _AFFINE)

    def place(self, module: str, shape: tuple[int, int], expert: int | None = None) -> StoredLinear | None:
        """Return the place of a linear's codes, or in a stack of one expert's, see ``Reader.place``."""
        headers, (out, width) = self._headers, shape
        codes, scales, biases = (f"{module}.{part}" for part in ("weight", "scales", "biases"))
        if scales not in headers:
            return None
        sides = [headers.tensors[name].shape if name in headers else () for name in (codes, scales)]
        stack = sides[0][:-2]
        if any(len(side) != 2 + (expert is not None) for side in sides) or any(size <= (expert or 0) for size in stack):
            raise headers.refused(f"{codes} and {scales} are of {sides[0]} and {sides[1]}", TOGETHER)
        words, groups = sides[0][-1], sides[1][-1]
        bits = words * 32 // width
        if bits not in _BITS or words * 32 != bits * width or not groups or width % groups:
            what = f"{words} words and {groups} groups are stored of {width} channels"
            raise headers.refused(what, TOGETHER, module)
        headers.check(codes, (*stack, out, words), ("U32",))
        for name in (scales, biases):
            headers.check(name, (*stack, out, groups), ("F16", "BF16", "F32"))
        scheme = Scheme(bits, width // groups, symmetric=False)
        size, _ = groups_of(headers, module, width, scheme, groups, order="")
        return StoredLinear("mlx", module, shape, bits, size, "affine", (codes, scales, biases), expert)
