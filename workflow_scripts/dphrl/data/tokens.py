"""Prompts and responses as tokens, by the tokenizer of the policy."""

import datetime
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The name of the generic class, which reads tokenizer.json, in transformers 4 and 5.
_GENERIC: Final = ("PreTrainedTokenizerFast", "TokenizersBackend")
# A template takes milliseconds; the limit is for endless loops.
_RENDER_SECONDS: Final = 10.0
# Every template is rendered on this day of Llama 3.1's template: prompts may not depend on the clock.
_TODAY: Final = datetime.datetime(2024, 7, 26)


class Rendered(NamedTuple):
    """A prompt as the model reads it."""

    text: str
    tokens: list[int]


class TemplateError(ValueError):
    """A chat template cannot render a prompt; the text names its folder."""


class _TimeUpError(BaseException):
    """The time is up; a BaseException because template code catches Exception."""


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a Hugging Face folder; nothing is downloaded and no code in the folder runs."""
    # Imported here: datasets whose samples were recorded are prepared without transformers.
    files = [folder / "config.json", folder / "tokenizer_config.json"]
    if all(map(Path.is_file, files)):
        # For models of Llama's type AutoTokenizer would load the generic class too, with torch, in five times the time.
        # For some other types it takes a class of its own, whatever the folder names.
        model, settings = (json.loads(file.read_text(encoding="utf-8")) for file in files)
        if model.get("model_type") == "llama" and settings.get("tokenizer_class") in _GENERIC:
            from transformers import PreTrainedTokenizerFast

            return PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    from transformers import AutoTokenizer

    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, local_files_only=True, trust_remote_code=False
    )
    return tokenizer


def encoder(policy: Path, template: Literal["plain", "chat"]) -> Callable[[list[dict[str, str]]], Rendered]:
    """The function from messages to a prompt, by the tokenizer in the folder of a policy.

    `chat` applies the tokenizer's chat template with its generation prompt, on a fixed day; `plain` concatenates the
    contents. A last message of the assistant is continued. A system message that the template refuses or leaves out
    comes first in the message of the user.

    The function raises TemplateError where the template fails or takes more than 10 seconds of CPU time; for this limit
    it must be called in the main thread.
    """
    tokenizer = load_tokenizer(policy)
    if template == "plain":

        def concatenate(messages: list[dict[str, str]]) -> Rendered:
            text = "".join(message["content"] for message in messages)
            return Rendered(text, list(tokenizer(text)["input_ids"]))

        return concatenate
    if tokenizer.chat_template is None:
        raise ValueError(f"{policy}: its tokenizer has no chat template; set prompts.template to plain or add one")

    # Templates of Gemma refuse a system message, others leave it out.
    probe = [{"role": "system", "content": "A system message."}, {"role": "user", "content": "A question."}]
    try:
        takes_system = probe[0]["content"] in _rendered(tokenizer, policy, probe, generate=True)
    except TemplateError:
        takes_system = False

    def render(messages: list[dict[str, str]]) -> Rendered:
        if not takes_system and [message["role"] for message in messages[:2]] == ["system", "user"]:
            system, user, *rest = messages
            messages = [{"role": "user", "content": f"{system['content']}\n\n{user['content']}"}, *rest]
        text = _rendered(tokenizer, policy, messages, generate=True)
        return Rendered(text, list(tokenizer(text, add_special_tokens=False)["input_ids"]))

    return render


def end_of_turn(tokenizer: "PreTrainedTokenizerBase", policy: Path) -> int | None:
    """The first special token of the chat template after an answer, or None.

    Raises TemplateError as `encoder` does.
    """
    answer = "An answer."
    messages = [{"role": "user", "content": "A question."}, {"role": "assistant", "content": answer}]
    after = _rendered(tokenizer, policy, messages, generate=False).rpartition(answer)[2]
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    special |= {*tokenizer.all_special_ids}
    ids = tokenizer(after, add_special_tokens=False)["input_ids"]
    return next((token for token in ids if token in special), None)


def _rendered(
    tokenizer: "PreTrainedTokenizerBase", policy: Path, messages: list[dict[str, str]], *, generate: bool
) -> str:
    """The messages in the tokenizer's chat template, for `generate` up to a response; TemplateError as `encoder`."""
    continued = generate and messages[-1]["role"] == "assistant"
    try:
        with _limited():
            return str(
                tokenizer.apply_chat_template(
                    messages,
                    add_generation_prompt=generate and not continued,
                    continue_final_message=continued,
                    tokenize=False,
                    strftime_now=_TODAY.strftime,
                )
            )
    except _TimeUpError:
        problem = f"its chat template has not rendered the prompt after {_RENDER_SECONDS:g} s of CPU time"
        raise TemplateError(f"{policy}: {problem}: does a loop in it never end?") from None
    except Exception as error:
        problem = f"its chat template cannot render the prompt: {type(error).__name__}: {error}"
        raise TemplateError(f"{policy}: {problem}") from error


@contextmanager
def _limited() -> Iterator[None]:
    """Raise _TimeUpError in the block after the limit of CPU time, which stands still while the process does."""

    def stop(_signal: int, _frame: object) -> None:
        raise _TimeUpError

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _RENDER_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def end_token(tokenizer: "PreTrainedTokenizerBase", policy: Path, template: str) -> int | None:
    """The token that ends a response: that of the chat template under "chat", else EOS. None without any."""
    end = end_of_turn(tokenizer, policy) if template == "chat" else None
    return tokenizer.eos_token_id if end is None else end


def response_encoder(policy: Path, template: str) -> Callable[[str, bool], list[int]]:
    """The function from a recorded response, and whether it is complete, to its token ids: with an end token if so."""
    tokenizer = load_tokenizer(policy)
    end = end_token(tokenizer, policy, template)
    ends = [] if end is None else [end]

    def encode(text: str, complete: bool) -> list[int]:
        return [*tokenizer(text, add_special_tokens=False)["input_ids"], *(ends if complete else [])]

    return encode
