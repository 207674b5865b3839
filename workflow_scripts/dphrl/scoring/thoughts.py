"""Verdicts on the answers of responses that think first, for all tasks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dphrl.data.thoughts import answer_part
from dphrl.scoring.verdict import Scorer, Verdict

STILL_THINKING: Final = Verdict("no_answer", False, 0.0, detail="still thinking at the limit")


def score_answers(
    scorer: Scorer,
    thoughts: Mapping[str, str],
    responses: Sequence[str],
    ground_truths: Sequence[Mapping[str, Any]],
    opened: Sequence[bool],
) -> list[Verdict]:
    """Verdicts in the order of the responses. The scorer sees no thoughts, and no response that only thinks.

    Args:
        thoughts: the end of a thought by its opening.
        opened: for each response, whether its prompt ends inside of a thought.
    """
    answers = [answer_part(text, thoughts, inside) for text, inside in zip(responses, opened, strict=True)]
    asked = [(text, truth) for text, truth in zip(answers, ground_truths, strict=True) if text is not None]
    verdicts = iter(scorer.score([text for text, _ in asked], [truth for _, truth in asked]))
    return [STILL_THINKING if text is None else next(verdicts) for text in answers]
