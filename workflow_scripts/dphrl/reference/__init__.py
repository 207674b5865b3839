"""The reference responses: one response per D_pef prompt, with its log-probs under the frozen base policy."""

from dphrl.reference.responses import load

__all__ = ["load"]
