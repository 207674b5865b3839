"""The tokens that end a response: of the tokenizer, of the model's settings and of its chat template."""

import json
import warnings
from pathlib import Path

import pytest
from tiny_models import EOS, write_tiny_policy, write_tokenizer
from transformers import PreTrainedTokenizerBase

from dphrl.policy.response_tokens import stop_tokens

TURNS = "{% for m in messages %}{{ m['content'] }}<turn>\n{% endfor %}"


def _tokenizer(folder: Path, template: str | None) -> tuple[PreTrainedTokenizerBase, int]:
    tokenizer = write_tokenizer(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    tokenizer.chat_template = template
    return tokenizer, tokenizer.convert_tokens_to_ids("<turn>")


def test_without_a_template_they_are_those_of_tokenizer_and_model(tmp_path: Path) -> None:
    write_tiny_policy(tmp_path)
    tokenizer, _ = _tokenizer(tmp_path, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stop_tokens(tmp_path, tokenizer, None) == {EOS}
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9]}))
        assert stop_tokens(tmp_path, tokenizer, None) == {EOS, 7, 9}
        assert stop_tokens(tmp_path, tokenizer, [5]) == {EOS, 5, 7, 9}
        # Without settings of generation those of the model count.
        (tmp_path / "generation_config.json").unlink()
        (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 8}))
        assert stop_tokens(tmp_path, tokenizer, None) == {EOS, 8}


def test_the_end_of_a_turn_ends_a_response_also_where_it_is_not_the_eos(tmp_path: Path) -> None:
    """As of Qwen2.5-Math-7B: the EOS of the base model is another token."""
    write_tiny_policy(tmp_path)
    tokenizer, turn = _tokenizer(tmp_path, TURNS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stop_tokens(tmp_path, tokenizer, None) == {EOS, turn}
        assert stop_tokens(tmp_path, tokenizer, [turn]) == {EOS, turn}


@pytest.mark.parametrize(
    ("template", "more", "words"),
    [
        (TURNS, [5], r"ends an answer with '<turn>' \(45\)"),
        ("{% for m in messages %}{{ m['content'] }}\n\n{% endfor %}", None, "has no special token after an answer"),
        ("{{ raise_exception('only questions') }}", None, "cannot render an answer .*only questions"),
    ],
)
def test_a_template_whose_last_token_ends_nothing_is_named(
    template: str, more: list[int] | None, words: str, tmp_path: Path
) -> None:
    write_tiny_policy(tmp_path)
    tokenizer, turn = _tokenizer(tmp_path, template)
    with pytest.warns(UserWarning, match=words) as warned:
        assert turn not in stop_tokens(tmp_path, tokenizer, more)
    assert "set engine.stop or engine.stop_token_ids" in str(warned[0].message)
    assert str(tmp_path) in str(warned[0].message)
