"""The answer of a response that thinks first: what follows the last end of a thought."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from dphrl.config.scorers import THOUGHTS
from dphrl.data.thoughts import answer_part
from dphrl.scoring.factory import CustomScorer
from dphrl.scoring.verdict import Verdict
from dphrl.scoring.verdict_tables import score_rollouts


@pytest.mark.parametrize(
    ("response", "opened", "answer"),
    [
        ("7", False, "7"),
        ("<think>6</think>7", False, "7"),
        ("6</think>7", True, "7"),
        # A file of samples does not say that the prompt opened the thought.
        ("6</think>7", False, "7"),
        ("<think>5</think>6</think>7", False, "7"),
        ("<reasoning>6</reasoning>7", False, "7"),
        ("<|begin_of_thought|>6<|end_of_thought|>7", False, "7"),
        ("I use the <think> tag: 7", False, "I use the <think> tag: 7"),
        ("<think>6", False, None),
        (" \n<thinking>6", False, None),
        ("<think>5</think>\n<think>6", False, None),
        ("6", True, None),
        ("", True, None),
    ],
)
def test_the_answer_follows_the_last_end_of_a_thought(response: str, opened: bool, answer: str | None) -> None:
    assert answer_part(response, THOUGHTS, opened) == answer


def test_without_tags_in_the_configuration_the_response_is_the_answer() -> None:
    assert answer_part("<think>6", {}, False) == "<think>6"


class Reader(CustomScorer):
    """Accepts a response that equals its gold."""

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        pairs = zip(responses, ground_truths, strict=True)
        return [
            Verdict("correct", True, 1.0) if text == truth["gold"] else Verdict("wrong", False, 0.0)
            for text, truth in pairs
        ]


def test_a_scorer_sees_answers_only_and_an_open_thought_is_none() -> None:
    rollouts = pl.DataFrame(
        {
            "prompt_id": ["a", "a", "b", "b"],
            "sample_index": [0, 1, 0, 1],
            "text": ["<think>no</think>1", "1", "no</think>2", "2"],
        }
    )
    gold = pl.DataFrame({"prompt_id": ["a", "b"], "ground_truth": ['{"gold": "1"}', '{"gold": "2"}']})
    prompts = pl.DataFrame({"prompt_id": ["b", "a"], "thought_open": [True, False]})
    verdicts = score_rollouts(rollouts, gold, prompts, Reader(), THOUGHTS)
    assert verdicts["verdict"].to_list() == ["correct", "correct", "correct", "no_answer"]
    assert verdicts["detail"].to_list()[3] == "still thinking at the limit"
