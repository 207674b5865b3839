"""A custom scorer: the last line of a response is the answer, and it must be one of the accepted ones."""

from collections.abc import Mapping, Sequence
from typing import Any

from dphrl.scoring import CustomScorer, Verdict, register


@register("one_of")
class OneOf(CustomScorer):
    """Ground truth: {"accepted": [texts]}."""

    def __init__(self, ignore_case: bool = True) -> None:
        self._fold = str.casefold if ignore_case else str

    def score(self, responses: Sequence[str], ground_truths: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        return [self._judge(response, truth) for response, truth in zip(responses, ground_truths, strict=True)]

    def response_to(self, ground_truth: Mapping[str, Any]) -> str | None:
        return ground_truth["accepted"][0]

    def _judge(self, response: str, truth: Mapping[str, Any]) -> Verdict:
        lines = response.split("\n")
        answer = lines[-1].strip(" .")
        if not answer:
            return Verdict("no_answer", correct=False, reward=0.0)
        correct = self._fold(answer) in map(self._fold, truth["accepted"])
        # Equivalent answers have the same class, which is how distinct answers are counted.
        return Verdict(
            "correct" if correct else "wrong", correct, float(correct), answer, answer_class=self._fold(answer)
        )
