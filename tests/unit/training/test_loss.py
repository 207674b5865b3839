"""The loss of a mini-batch against closed forms: batches in which every answer has its probability's share."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.config.notices import strengths
from dphrl.policy.batch import Row
from dphrl.training.loss import Example, Objective

F64 = torch.float64
POLICY, REFERENCE = (torch.tensor(p, dtype=F64) for p in ([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]))
# Answers with the frequencies of POLICY, in rows of one token, and with those of REFERENCE, in rows of four.
ROLLOUTS = [[0], [0], [1], [2]]
STORED = [[0, 1, 2, 2], [2, 0, 2, 1]]
ETA = 0.3


def _examples(rows: Sequence[list[int]], rehearsal: bool, old: Tensor | None = None) -> list[Example]:
    return [
        Example(
            Row([9], row),
            rehearsal,
            old=None if old is None else old.log()[row],
            reference=REFERENCE.log()[row],
        )
        for row in rows
    ]


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (p * (p / q).log()).sum()


def _js(policy: Tensor) -> Tensor:
    """The two KL divergences to the mixture."""
    mixture = (policy + REFERENCE) / 2
    return _kl(policy, mixture) + _kl(REFERENCE, mixture)


def _gradient(loss: Callable[[Tensor], Tensor]) -> Tensor:
    logits = POLICY.log().requires_grad_()
    return torch.autograd.grad(loss(logits.log_softmax(0)), logits)[0]


def _train(norm: str) -> TrainConfig:
    return TrainConfig(rehearsal_norm=norm)


# Shares of the policy loss and of the divergence: 4 rollouts with 4 tokens, 2 stored responses with 8.
@pytest.mark.parametrize(("norm", "share"), [("separate", 1), ("joint", 2 / 6), ("tokens", 8 / 12)])
def test_a_batch_of_js_by_definition_descends_jensen_shannon(norm: str, share: float) -> None:
    """Both halves weigh alike under each norm, so that together they are the divergence."""
    objective = Objective(MethodConfig(divergence="js_definition", estimator="exact", eta=ETA), _train(norm))
    weights = objective.loss_weights((4, 2), (4, 8))
    assert weights.exploration * 4 == pytest.approx({"separate": 1, "joint": 4 / 6, "tokens": 4 / 12}[norm])
    rollouts, stored = _examples(ROLLOUTS, False), _examples(STORED, True)

    def loss(logprobs: Tensor) -> Tensor:
        ours, theirs = (logprobs[torch.tensor([a for row in rows for a in row])] for rows in (ROLLOUTS, STORED))
        entropy = torch.zeros(len(ours))
        of_rollouts, _ = objective.rollout_loss(ours, entropy, rollouts, weights)
        of_stored, _ = objective.rehearsal_loss(theirs, None, stored, weights)
        return of_rollouts + of_stored

    torch.testing.assert_close(_gradient(loss), ETA * share * _gradient(lambda x: _js(x.exp())), atol=1e-12, rtol=0)


def test_kl_to_old_is_that_of_the_old_policy_to_the_new() -> None:
    old, drawn_from_old = torch.tensor([0.25, 0.5, 0.25], dtype=F64), [0, 1, 1, 2]
    objective = Objective(MethodConfig(), _train("separate"))
    weights = objective.loss_weights((4, 0), (4, 0))
    rollouts = _examples([[answer] for answer in drawn_from_old], False, old)
    _, sums = objective.rollout_loss(POLICY.log()[drawn_from_old], torch.zeros(4), rollouts, weights)
    assert float(sums["kl_to_old_sum"]) / 4 == pytest.approx(_kl(old, POLICY).item(), abs=1e-12)


def test_an_advantage_is_one_for_a_response_or_one_for_each_token() -> None:
    objective = Objective(MethodConfig(), _train("separate"))
    weights = objective.loss_weights((2, 0), (4, 0))
    rows = [Row([9], [0, 1, 2]), Row([9], [2])]
    logprobs = torch.tensor([-1.0, -2.0, -0.5, -1.5], requires_grad=True)
    examples = [
        Example(rows[0], advantage=torch.tensor([1.0, -2.0, 0.5], dtype=F64)),
        Example(rows[1], advantage=3.0),
    ]
    loss, _ = objective.rollout_loss(logprobs, torch.zeros(4), examples, weights)
    # Before an update the gradient of a token's policy loss is minus its advantage.
    (found,) = torch.autograd.grad(loss, logprobs)
    assert found.tolist() == pytest.approx([-0.25, 0.5, -0.125, -0.75])


@pytest.mark.parametrize(
    "method",
    [
        MethodConfig(divergence="forward_kl"),
        MethodConfig(divergence="js"),
        MethodConfig(divergence="js", js_scale=0.5),
        *(MethodConfig(divergence="alpha", alpha=alpha) for alpha in (0.0, 0.3, 1.0)),
        *(MethodConfig(divergence="reverse_kl", estimator=estimator) for estimator in ("k2", "k3")),
        *(MethodConfig(divergence="js_definition", estimator=estimator) for estimator in ("k3", "exact")),
    ],
    ids=lambda method: f"{method.divergence}-{method.estimator}-{method.js_scale}-{method.alpha}",
)
def test_the_strength_that_the_run_prints_is_the_slope_of_the_gradient_at_the_reference(method: MethodConfig) -> None:
    objective = Objective(method, _train("joint"))
    forms = [form for form in (objective.rehearsal_divergence, objective.rollout_divergence) if form is not None]
    # With weight 1 the strength is the curvature.
    lines = strengths(method.model_copy(update={"eta": 1.0, "js_beta": "auto"}), _train("separate"))
    printed = [float(line.rpartition(" ")[2]) for line in lines]
    assert len(printed) == len(forms) > 0
    step = torch.tensor([-1e-4, 1e-4], dtype=F64)
    for form, strength in zip(forms, printed, strict=True):
        below, above = form.gradient(step)
        assert ((above - below) / 2e-4).item() == pytest.approx(strength, rel=1e-6)
