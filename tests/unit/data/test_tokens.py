"""Messages become tokens by the tokenizer's chat template: in limited time, and the same on every day."""

import json
import signal
from pathlib import Path

import pytest
from tiny_models import write_tokenizer
from transformers import AutoTokenizer

from dphrl.data import tokens
from dphrl.data.prepare import prepare
from dphrl.data.records import SourceError
from dphrl.data.tokens import TemplateError, encoder, load_tokenizer, response_encoder

ASK = [{"role": "system", "content": "b"}, {"role": "user", "content": "a"}]
CHAT = "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}A:{% endif %}"
# Of the templates of Llama 3.1, Llama 3.2 and Granite 3.3, what they have about the date.
LLAMA_31 = '{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}'
LLAMA_32 = (
    "{%- if not date_string is defined %}{%- if strftime_now is defined %}"
    '{%- set date_string = strftime_now("%d %b %Y") %}'
    '{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}{%- endif %}'
)
GRANITE = "{%- set date_string = strftime_now('%B %d, %Y') %}"
DATE = "{{ date_string | lower }}"
ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "a power": "{% set n = 99999999 %}{{ n ** n ** n }}",
}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path)
    return tmp_path


def with_template(policy: Path, template: str) -> Path:
    (policy / "chat_template.jinja").write_text(template, encoding="utf-8")
    return policy


def text(policy: Path, template: str) -> str:
    vocabulary = json.loads((policy / "tokenizer.json").read_text())["model"]["vocab"]
    letters = {number: letter for letter, number in vocabulary.items()}
    return "".join(letters[token] for token in encoder(with_template(policy, template), "chat")(ASK).tokens)


def test_the_template_is_applied_with_its_generation_prompt(policy: Path) -> None:
    assert text(policy, CHAT) == "b\na\nA:"
    assert encoder(policy, "plain")(ASK).tokens == [3, 2]


@pytest.mark.parametrize(
    ("template", "day"), [(LLAMA_31, "26 jul 2024"), (LLAMA_32, "26 jul 2024"), (GRANITE, "july 26_ 2024")]
)
def test_a_template_that_asks_for_the_date_gets_the_same_on_every_day(policy: Path, template: str, day: str) -> None:
    assert text(policy, template + DATE) == day


@pytest.mark.parametrize(
    "system",
    ["{{ raise_exception('System role not supported') }}", "{% set skipped = true %}"],
    ids=["refused", "left out"],
)
def test_a_system_message_joins_the_user_where_the_template_has_none(policy: Path, system: str) -> None:
    body = (
        "{% for m in messages %}{% if m.role == 'system' %}"
        + system
        + "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    prompt = encoder(with_template(policy, body), "chat")(ASK)
    assert prompt.text == "b\n\na"


def test_a_template_that_ignores_texts_is_refused(policy: Path) -> None:
    parts = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}<eos>{% endfor %}"
    render = encoder(with_template(policy, parts), "chat")
    with pytest.raises(SourceError, match="lacks the last message of the user"):
        prepare([{"question": "a", "answer": "b"}], "math", "s", render, 99)


def test_a_template_cannot_read_the_time(policy: Path) -> None:
    assert text(policy, "{{ strftime_now('%H:%M:%S_%f') }}") == "00:00:00_000000"


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_that_never_ends_is_named_with_its_row(
    policy: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = signal.getsignal(signal.SIGPROF)
    template = f"{{% if messages[0].content == 'slow' %}}{ENDLESS[name]}{{% endif %}}{CHAT}"
    monkeypatch.setattr(tokens, "_RENDER_SECONDS", 0.3)
    encode = encoder(with_template(policy, template), "chat")
    rows = [{"prompt": prompt, "answer": "1"} for prompt in ("fast", "slow")]
    with pytest.raises(SourceError) as caught:
        prepare(rows, "math", "rows.jsonl", encode, 99)
    assert str(caught.value).startswith(
        f"rows.jsonl, row 1: {policy}: its chat template has not rendered the prompt after"
    )
    assert signal.getsignal(signal.SIGPROF) == handler
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ raise_exception('System role not supported') }}", "TemplateError: System role not supported"),
        ("{% for %}", "TemplateSyntaxError: "),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError: "),
        ("{{ 1 + 'a' }}", "TypeError: "),
    ],
)
def test_a_template_that_fails_is_named(policy: Path, template: str, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        encoder(with_template(policy, template), "chat")(ASK)
    assert str(caught.value).startswith(f"{policy}: its chat template cannot render the prompt: {problem}")


def test_a_tokenizer_without_a_template_is_an_error(policy: Path) -> None:
    with pytest.raises(ValueError, match=r"no chat template; set prompts.template to plain or add one"):
        encoder(policy, "chat")


def test_a_complete_recorded_response_ends_as_the_template_ends_a_turn(policy: Path) -> None:
    turn = "{% for m in messages %}{{ m.content }}<pad>{% endfor %}"
    for template, end in (("chat", 0), ("plain", 1)):
        encode = response_encoder(with_template(policy, turn), template)
        assert (encode("ab", True), encode("ab", False)) == ([2, 3, end], [2, 3])


@pytest.mark.parametrize("name", ["PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer"])
@pytest.mark.parametrize("model", ["llama", None])
def test_a_tokenizer_is_the_one_that_transformers_would_choose(policy: Path, name: str, model: str | None) -> None:
    settings = json.loads((policy / "tokenizer_config.json").read_text())
    (policy / "tokenizer_config.json").write_text(json.dumps(settings | {"tokenizer_class": name}))
    if model:
        (policy / "config.json").write_text(json.dumps({"model_type": model}))
    ours, automatic = load_tokenizer(policy), AutoTokenizer.from_pretrained(policy)
    assert type(ours) is type(automatic)
    assert ours("ab<eos>").input_ids == automatic("ab<eos>").input_ids
    assert ours.eos_token_id == automatic.eos_token_id
