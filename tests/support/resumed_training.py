"""A check of any device: a training that was saved and loaded goes on as one that was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tiny_training import make_trainer, weights_of
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig
from dphrl.training.loss import Example

_LR = 1e-3


def _distance(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Mean of the absolute differences of the weights."""
    assert ours.keys() == theirs.keys()
    numbers = sum(weight.numel() for weight in ours.values())
    return sum(float((weight.float() - theirs[name].float()).abs().sum()) for name, weight in ours.items()) / numbers


def check_resumed(policy: Path, examples: Sequence[Example], dtype: str, stage: int, folder: Path) -> None:
    """The step after a resume is that of the training that went on, and needs the saved moments."""
    method = MethodConfig(divergence="js", eta=0.5)
    trainer = make_trainer(policy, method, dtype=dtype, zero_stage=stage)
    trainer.update(examples, _LR)
    trainer.save_state(folder / "state")
    trainer.save_policy(folder / "policy")
    before = weights_of(trainer)
    resumed, fresh = (
        make_trainer(folder / "policy", method, state=state, dtype=dtype, zero_stage=stage)
        for state in (folder / "state", None)
    )
    assert all(weight.equal(before[name]) for name, weight in resumed.named_weights())
    expected, found, _ = (each.update(examples[:9], _LR).grad_norm for each in (trainer, resumed, fresh))
    # Half a per cent: sums of a gradient come in another order.
    assert abs(found / expected - 1) < 5e-3
    after = weights_of(trainer)
    moved = _distance(after, before)
    assert moved > 0
    assert _distance(weights_of(resumed), after) < 0.05 * moved
    assert _distance(weights_of(fresh), after) > 0.2 * moved
