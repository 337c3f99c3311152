"""Where codes are in MLX's format: ``weight``, ``scales`` and ``biases``, experts stacked. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sarqc.opening.place import AGAIN, Headers, Place, Scheme, groups_of

_BITS = (2, 3, 4, 5, 6, 8)
_AFFINE = "Convert it again with the mode affine."


class Mlx:
    """Linears by their shapes, as mlx-lm takes them where its configuration does not name them."""

    def __init__(self, headers: Headers, said: Mapping[str, Any]) -> None:
        self._headers = headers
        for one in (said, *(value for value in said.values() if isinstance(value, dict))):
            if (mode := one.get("mode", "affine")) != "affine":
                raise headers.refused(f"its codes are of the mode “{mode}”", _AFFINE)

    def place(self, module: str, shape: tuple[int, int], expert: int | None = None) -> Place | None:
        """Where the codes of a linear, or in a stack of one expert, are; None: it has none.

        Raises ``Refused`` for what can't be read.
        """
        headers, (out, width) = self._headers, shape
        codes, scales, biases = (f"{module}.{part}" for part in ("weight", "scales", "biases"))
        if scales not in headers:
            return None
        stack = headers.tensors[codes].shape[:-2] if codes in headers else ()
        if len(stack) != (expert is not None) or (expert is not None and expert >= stack[0]):
            raise headers.refused(f"{codes} is of {headers.tensors[codes].shape}", AGAIN)
        words, groups = headers.tensors[codes].shape[-1], headers.tensors[scales].shape[-1]
        bits = words * 32 // width
        if bits not in _BITS or words * 32 != bits * width or not groups or width % groups:
            what = f"{words} words and {groups} groups are stored of {width} channels"
            raise headers.refused(what, AGAIN, module)
        headers.check(codes, (*stack, out, words), ("U32",))
        for name in (scales, biases):
            headers.check(name, (*stack, out, groups), ("F16", "BF16", "F32"))
        scheme = Scheme(bits, width // groups, symmetric=False)
        size, _ = groups_of(headers, module, width, scheme, groups, order="")
        return Place("mlx", module, shape, bits, size, "affine", (codes, scales, biases), expert)
