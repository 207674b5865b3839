"""Messages between a scorer and its worker processes: one line of JSON each."""

import json
from typing import Any, BinaryIO, Final, Protocol

Message = dict[str, Any]

_LONGEST_DETAIL: Final = 500


class Handler(Protocol):
    """Judges tasks inside a worker process."""

    def run(self, task: Message) -> Message:
        """The reply to one task, without its id.

        With `retry`, it should run once more, alone: it ran out of wall-clock time or memory. With `renew`, the process
        may have too little memory left for other tasks and is replaced. The verdict `infrastructure_error` stops the
        scoring.
        """


def verdict_reply(
    verdict: str,
    reward: float = 0.0,
    answer_class: str | None = None,
    detail: str | None = None,
    retry: bool = False,
    renew: bool = False,
) -> Message:
    """The reply of a handler with its verdict on one answer.

    Args:
        verdict, reward, answer_class: as in `Verdict`.
        detail: the reason for the verdict; cut to 500 characters, as errors quote the query.
        retry, renew: as in `Handler.run`.
    """
    detail = detail and detail[:_LONGEST_DETAIL]
    reply = {"verdict": verdict, "reward": reward, "answer_class": answer_class, "detail": detail}
    return {**reply, "retry": retry, "renew": renew}


def error_reply(error: BaseException) -> Message:
    """The reply to a task whose answer raised an error that its handler does not know."""
    if isinstance(error, MemoryError):
        detail = "judging the answer needs more memory than it may use"
        return verdict_reply("out_of_memory", detail=detail, retry=True, renew=True)
    return verdict_reply("runtime_error", detail=f"{type(error).__name__}: {error}")


def encode(message: Message) -> bytes:
    """A message as a line; lone surrogates survive as escapes."""
    return json.dumps(message).encode("ascii") + b"\n"


def read(stream: BinaryIO) -> Message | None:
    """The next message, or None at the end of the stream."""
    line = stream.readline()
    return dict(json.loads(line)) if line.endswith(b"\n") else None
