"""The saliency penalty in GPTQModel: its GPTQ, with a penalty on the Gram in the place of its damping.

    with saliency_penalty(0.25, 0.1):
        model.quantize(rows)

GPTQModel chooses its solver by name, so another solver stands under that name meanwhile. It needs GPTQModel 7.7, and of
sarqc only the modules that need nothing but torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from gptqmodel.looper import gptq_processor
from gptqmodel.quantization.gptq import GPTQ
from torch import Tensor

from sarqc.quantization.objective import drift_weights, saliency

Points = Mapping[str, tuple[float, float]]  # λ and γ, by a regular expression for names of linears


@contextmanager
def saliency_penalty(lam: float, gamma: float, by_layer: Points | None = None) -> Iterator[None]:
    """Give the Gram of every linear that GPTQModel solves within this context a saliency penalty.

    The Gram becomes Gram + λ · h̄ · diag(s²/mean s²), as in sarqc's own solver. s = mean|x|^γ / mean|W|^(1-γ), and h̄
    is the mean of the Gram's diagonal. Set ``damp_percent`` to next to nothing, 1e-6: it is added beside the penalty.

    Args:
        lam: λ.
        gamma: γ.
        by_layer: Other values of λ and γ for linears whose full names match a regular expression.
    """
    known = {re.compile(pattern): point for pattern, point in (by_layer or {}).items()}

    class Penalised(GPTQ):
        """GPTQModel's solver of one linear."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._sum: Tensor | None = None  # (I,), Σ|x|
            self._is_penalised = False

        def process_batch(self, inp: Tensor, *arguments: Any, **named: Any) -> Any:
            """Add a batch of inputs to the Gram and to Σ|x|."""
            total = inp.detach().abs().reshape(-1, inp.shape[-1]).sum(dim=0, dtype=torch.float32)
            with self.lock:  # batches come from several threads
                self._sum = total if self._sum is None else self._sum + total.to(self._sum.device)
            return super().process_batch(inp, *arguments, **named)

        def adopt_hessian_from(self, leader: Penalised) -> None:
            """Adopt the sums of another linear, which reads the same tensor."""
            super().adopt_hessian_from(leader)
            self._sum = leader._sum

        def attach_shared_hessian_cache(self, cache: Any) -> None:
            """Disable sharing: with a penalty by its own weight, each linear has another Gram."""
            super().attach_shared_hessian_cache(cache)
            self._disable_shared_hessian_cache()

        def finalize_hessian(self, *arguments: Any, **named: Any) -> Tensor:
            """Return the Gram with its penalty, before any column is moved."""
            gram: Tensor = super().finalize_hessian(*arguments, **named)
            if self._is_penalised or self._sum is None:
                return gram
            self._is_penalised = True
            name = self._named_module.full_name
            of_layer = next((point for pattern, point in known.items() if pattern.match(name)), (lam, gamma))
            # How many tokens there were is a factor of s, which s²/mean s² does not have.
            s = saliency(self._sum.to(gram.device), self.clone_module(device=gram.device), of_layer[1])
            gram.diagonal().add_(of_layer[0] * drift_weights(gram, s.square()))
            return gram

    usual = gptq_processor.GPTQ
    gptq_processor.GPTQ = Penalised
    try:
        yield
    finally:
        gptq_processor.GPTQ = usual
