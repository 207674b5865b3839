"""Thoughts of a model, which stand between tags before its answer."""

from collections.abc import Mapping


def answer_part(response: str, thoughts: Mapping[str, str], opened: bool) -> str | None:
    """The part of a response that answers: what follows the last end of a thought. None while a thought is open.

    A thought is open at the start if the prompt opens it, and where a text or the part behind an end begins with an
    opening. Openings elsewhere are text: a response may write about them.

    Args:
        thoughts: the end of a thought by its opening.
        opened: the prompt ends inside of a thought.
    """
    ends = [at + len(end) for end in thoughts.values() if (at := response.rfind(end)) >= 0]
    answer = response[max(ends, default=0) :]
    if answer.lstrip().startswith(tuple(thoughts)) or (opened and not ends):
        return None
    return answer
