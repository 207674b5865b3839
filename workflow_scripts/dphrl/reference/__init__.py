"""The reference responses: one stored response per D_pef prompt, with its log-probs under the frozen base policy."""

from dphrl.reference.build import reference_rows, save_parts, save_tensors, tensorise, tensorise_parts
from dphrl.reference.responses import ReferenceResponses, load

__all__ = ["ReferenceResponses", "load", "reference_rows", "save_parts", "save_tensors", "tensorise", "tensorise_parts"]
