"""How far the policy is from the stored responses' reference log-probs; before any update, not at all."""

from math import ceil
from pathlib import Path

import torch
from torch import Tensor

from dphrl.reference.responses import ReferenceResponses
from dphrl.training.trainer import Trainer

_ROWS = 64
_FLOAT32_TOLERANCE = 1e-5
# Two passes in bfloat16 that are cut differently can differ by about as much.
_BFLOAT16_TOLERANCE = 1e-2
_MISMATCHES = 3


class ReferenceMismatchError(RuntimeError):
    """The stored log-probs are not those of the policy that a training starts from."""


def log_ratios(trainer: Trainer, responses: ReferenceResponses) -> Tensor:
    """l = log pi_theta - log pi_ref of all response tokens of 64 rows, evenly spread over the file: float32 (tokens,).

    All ranks compute the same rows, so they get the same values.
    """
    rows, reference = responses.rows(range(0, len(responses), ceil(len(responses) / _ROWS)))
    return torch.cat(trainer.logprobs(rows)) - torch.cat(reference)


def check_reference(trainer: Trainer, responses: ReferenceResponses, policy: Path, mismatch: float) -> float:
    """Compare the stored log-probs with those of the policy that a training starts from. Returns the mean |l|.

    Every divergence starts at zero only if the policy is the one whose log-probs are stored.

    Args:
        policy: folder of the policy, for the message.
        mismatch: mean |difference| of engine and trainer on the policy's own log-probs, for the tolerance in bfloat16.

    Raises:
        ReferenceMismatchError: the mean |l| is above 1e-5 in float32; in bfloat16 above three times the mismatch, and
            above 1e-2.
    """
    gap = float(log_ratios(trainer, responses).abs().mean())
    tolerance = _FLOAT32_TOLERANCE
    if trainer.config.dtype == "bfloat16":
        tolerance = max(_BFLOAT16_TOLERANCE, _MISMATCHES * mismatch)
    # Negated, so that NaN fails too.
    if not gap <= tolerance:
        raise ReferenceMismatchError(
            f"{responses.path}: its log-probs differ by {gap:.2e} nats per token from those of the base policy"
            f" {policy} (tolerance {tolerance:.2e}): one of the two is not what it was when they were computed; restore"
            " the policy, or delete this file and run snakemake again"
        )
    return gap
