"""What passes between a scorer and the worker that judges for it."""

from typing import Any, Final, Protocol

Message = dict[str, Any]

_LONGEST_DETAIL: Final = 500


class Handler(Protocol):
    """Answers tasks. A reply has `status`: `done`, `wall` (out of time) or `fault` (not the answer's)."""

    def run(self, task: Message) -> Message:
        """The reply to one task, without its id."""


def done(verdict: str, *, reward: float = 0.0, answer_class: str | None = None, detail: str | None = None) -> Message:
    """The reply that gives a verdict; a long detail (errors quote the query) is cut."""
    detail = detail and detail[:_LONGEST_DETAIL]
    return {"status": "done", "verdict": verdict, "reward": reward, "answer_class": answer_class, "detail": detail}
