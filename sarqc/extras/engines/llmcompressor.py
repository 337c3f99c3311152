"""The saliency penalty in llm-compressor: a modifier beside its own GPTQ.

Importing this module makes the name known to recipes in YAML:

    quant_stage:
      quant_modifiers:
        SARQCModifier: {lam: 0.25, gamma: 0.1, scheme: W4A16, targets: [Linear], ignore: [lm_head]}

It needs llm-compressor 0.14, and of sarqc only the modules that need nothing but torch: ``pip install --no-deps sarqc``
puts it beside a llm-compressor that needs another transformers than sarqc.
"""

from __future__ import annotations

from typing import Any

import torch
from compressed_tensors.offload import disable_offloading
from llmcompressor.modifiers import ModifierFactory
from llmcompressor.modifiers.gptq import GPTQModifier
from pydantic import Field, PrivateAttr
from torch import Tensor, nn

from sarqc.quantization.objective import drift_weights, saliency


class SARQCModifier(GPTQModifier):
    """GPTQ on the Gram + λ · h̄ · diag(s²/mean s²), s = mean|x|^γ / mean|W|^(1-γ), as in sarqc's own solver.

    h̄ is the mean of the Gram's diagonal. All other fields are those of ``GPTQModifier``. ``dampening_frac`` is added
    beside the penalty: next to nothing, so that a Gram is never singular, which would be rounded to nearest.
    """

    lam: float = Field(0.25, ge=0)
    gamma: float = Field(0.1, ge=0, le=1)
    dampening_frac: float | None = 1e-6

    _sums: dict[nn.Module, Tensor] = PrivateAttr(default_factory=dict)  # (I,), Σ|x| of each linear being calibrated

    def calibrate_module(self, module: nn.Module, args: tuple[Tensor, ...], _output: Tensor) -> None:
        """Add a batch of inputs to the Gram and to Σ|x|, as a hook of the forward pass."""
        super().calibrate_module(module, args, _output)
        inputs = args[0].detach()
        total = inputs.abs().reshape(-1, inputs.shape[-1]).sum(dim=0, dtype=torch.float32)
        before = self._sums.get(module)
        self._sums[module] = total if before is None else before + total

    def compress_module_list(self, module_list: list[nn.Module]) -> None:
        """Add the penalty to the Grams of some linears, and solve them."""
        for module in module_list:
            with torch.no_grad(), disable_offloading():
                gram = self._hessians[module]  # Σ 2 x xᵀ: h̄ of the same matrix carries the factor
                if not gram.diagonal().any():
                    gram.fill_diagonal_(1)  # an expert without tokens: its nearest levels, and not 0 as by itself
                # How many tokens there were is a factor of s, which s²/mean s² does not have.
                weight: Tensor = module.get_parameter("weight").to(gram)
                s = saliency(self._sums.pop(module).to(gram.device), weight, self.gamma)
                gram.diagonal().add_(self.lam * drift_weights(gram, s.square()))
        super().compress_module_list(module_list)

    def compress_modules(self) -> None:
        """Solve the calibrated linears.

        Raises:
            NotImplementedError: With several processes, because their sums Σ|x| are not combined.
        """
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            raise NotImplementedError("SARQCModifier runs in one process; start it without torchrun")
        super().compress_modules()

    def on_finalize(self, state: Any, **kwargs: Any) -> bool:
        self._sums = {}
        return bool(super().on_finalize(state, **kwargs))


ModifierFactory.register("SARQCModifier", SARQCModifier)
