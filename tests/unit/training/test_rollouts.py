"""Which groups a step trains on: dynamic sampling, its bound and its inputs; and the metrics of rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import Judgement

from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.policy.requests import Completion, Request
from dphrl.training.metrics import averages, rollout_sums
from dphrl.training.rollouts import Group, OnlinePrompt
from dphrl.training.segment import Segment

pytestmark = pytest.mark.usefixtures("one_rank")

WANTED, SIZE = 4, 3


@dataclass
class Echo:
    """An engine whose response is the id of its prompt."""

    asked: list[Request] = field(default_factory=list)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.asked += requests
        return [
            Completion([request.seed % 50] * (1 + request.sample_index), [-1.0], request.prompt_id, "stop")
            for request in requests
        ]


@dataclass
class Counting:
    """A scorer that finds every second response to some prompts right, and none to the others."""

    teaching: frozenset[str]

    def score(self, texts: Sequence[str], *_: Sequence[Any]) -> list[Judgement]:
        right = [text in self.teaching and i % SIZE % 2 == 0 for i, text in enumerate(texts)]
        return [Judgement(correct, float(correct)) for correct in right]


def _segment(teaching: Sequence[int], prompts: int, rounds: int, seed: int = 1) -> Segment:
    config = TrainConfig(
        steps=2, segment_steps=1, eval_every=2, prompts_per_step=WANTED, rollouts_per_prompt=SIZE, mini_batches=2
    )
    online = [OnlinePrompt(f"p{i:02}", [1, 2], False, {}) for i in range(prompts)]
    score = Counting(frozenset(f"p{i:02}" for i in teaching)).score
    method = MethodConfig(dynamic_sampling_rounds=rounds)
    unused: Any = None
    return Segment(unused, Echo(), online, None, score, config, method, seed)  # type: ignore[arg-type]


def _ids(groups: Sequence[Group]) -> list[str]:
    return [group.prompt.prompt_id for group in groups]


def _is_informative(group: Group) -> bool:
    return len({verdict.correct for verdict in group.verdicts}) == 2


def test_a_group_is_informative_where_its_rewards_differ() -> None:
    def group(*rewards: float) -> Group:
        return Group(OnlinePrompt("p", [1], False, {}), [], [Judgement(reward == 1.0, reward) for reward in rewards])

    groups = [group(1, 1), group(0, 0), group(0, 1), group(0.4, 0.0), group(0.4, 0.4)]
    assert [of_rewards.is_informative for of_rewards in groups] == [False, False, True, True, False]


@given(
    teaching=st.sets(st.integers(0, 9)), prompts=st.integers(1, 10), rounds=st.integers(0, 4), step=st.integers(1, 9)
)
def test_a_step_has_its_size_and_its_bound(teaching: set[int], prompts: int, rounds: int, step: int) -> None:
    segment = _segment(sorted(teaching), prompts, rounds)
    kept, left = segment.roll_out(step)
    first = _segment(sorted(teaching), prompts, 0).roll_out(step)[0]
    assert len(kept) == WANTED
    assert len(left) <= rounds * WANTED
    # A group that teaches something keeps its place; one that is lacked is lacked only when all rounds are used up.
    for ours, at_first in zip(kept, first, strict=True):
        assert ours == at_first if _is_informative(at_first) else _is_informative(ours) or ours == at_first
    if not all(map(_is_informative, kept)):
        assert len(segment.engine.asked) >= (WANTED + rounds) * SIZE
    # None that teaches something is left out while one that does not is kept.
    assert all(map(_is_informative, kept)) or not any(map(_is_informative, left))


def test_a_step_is_a_function_of_seed_and_step() -> None:
    def collected(seed: int, step: int) -> Any:
        return _segment(range(0, 20, 2), 20, 3, seed).roll_out(step)

    running = _segment(range(0, 20, 2), 20, 3)
    in_a_row = [running.roll_out(step) for step in (1, 2, 3)]
    assert in_a_row == [collected(1, step) for step in (1, 2, 3)]
    assert len({str(collected(seed, step)) for seed in (1, 2) for step in (1, 2)}) == 4


def test_every_response_has_its_own_seed() -> None:
    segment = _segment([0], 2, 4)
    for step in (1, 2, 3):
        segment.roll_out(step)
    seeds = [request.seed for request in segment.engine.asked]
    assert len(set(seeds)) == len(seeds) > 3 * WANTED * SIZE


def test_averages_are_over_responses_groups_and_tokens() -> None:
    prompt = OnlinePrompt("p", [1], False, {})
    short, long = Completion([1], [0.0], "", "stop"), Completion([1, 2, 3], [0.0] * 3, "", "length")
    groups = [
        Group(prompt, [short, long], [Judgement(True, 1.0), Judgement(False, 0.25)]),
        # Partial credit is a reward, not a right answer: neither solved nor mixed.
        Group(prompt, [short, short], [Judgement(False, 0.5), Judgement(False, 0.25)]),
    ]
    of_update = {
        "policy_loss_sum": 2.0,
        "clipped_sum": 3.0,
        "kl_to_old_sum": 0.5,
        "entropy_sum": 10.0,
        "rollout_tokens": 10,
    }
    found = averages({**rollout_sums(groups), "refilled": 1, **of_update})
    assert found == {
        "reward": 0.5,
        "correct": 0.25,
        "solved_share": 0.5,
        "mixed_share": 0.5,
        "response_length": 1.5,
        "truncated_share": 0.25,
        "refilled": 1,
        "entropy": 1.0,
        "policy_loss": 0.2,
        "clip_share": 0.3,
        "kl_to_old": 0.05,
        "prompts": 2,
        "rollouts": 4,
        "drawn_tokens": 6,
    }
    assert "constants" not in found
    more = {"divergence_sum": 3.0, "rehearsal_tokens": 6, "rollout_divergence_sum": 1.0, "off_policy_capped_sum": 2}
    found = averages({**rollout_sums(groups), "refilled": 0, **of_update, **more})
    assert (found["divergence"], found["rollout_divergence"], found["off_policy_capped"]) == (0.5, 0.1, 0.2)
    assert found["rehearsal_token_ratio"] == 0.6
    assert found["stored_tokens"] == 6


def test_the_coverage_gap_is_pass_at_k_of_the_rollouts_less_that_of_the_pre_samples() -> None:
    def group(right: int, base_right: int, base_n: int) -> Group:
        verdicts = [Judgement(place < right, float(place < right)) for place in range(4)]
        prompt = OnlinePrompt("p", [1], False, {}, base_right, base_n)
        return Group(prompt, [Completion([1], [0.0], "", "stop")] * 4, verdicts)

    # pass@2 of 2 pre-samples and of 1 of 4 rollouts, 1/2: -1/2. The second loses nothing, the third has no pre-samples.
    groups = [group(1, 1, 2), group(4, 2, 2), group(0, 0, 0)]
    found = averages({**rollout_sums(groups), "refilled": 0})
    assert found["coverage_gap"] == -1 / 4
    # The standard deviation of -1/2 and 0 is sqrt(1/8).
    assert found["coverage_gap_error"] == pytest.approx((1 / 8 / 2) ** 0.5)


def test_the_share_of_constants_is_one_of_the_right_answers_that_were_executed() -> None:
    right = [Judgement(True, 1.0, reads) for reads in (True, False, True, True, None)]
    wrong = [Judgement(False, 0.0, False), Judgement(False, 0.5)]
    groups = [Group(OnlinePrompt("p", [1], False, {}), [Completion([1], [0.0], "", "stop")] * 7, [*right, *wrong])]
    assert averages({**rollout_sums(groups), "refilled": 0})["constants"] == 1 / 4
