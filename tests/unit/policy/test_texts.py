"""The text of a complete response is what vLLM gives, which decodes it token by token."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerFast

from dphrl.policy.response_tokens import response_text

SPECIAL, END = "<special>", "<end>"
# Tokens that follow each other, and the decoder. A byte of the first need not be a part of a character.
BYTE_LEVEL = [[token] for token in (*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġthe", SPECIAL)]
# As Llama 2: a space at the start of a text is dropped, rare characters are bytes.
PIECES = [["▁"], ["▁the"], ["a"], ["é"], [SPECIAL], *([f"<0x{byte:02X}>" for byte in each.encode()] for each in "€😀")]
STRIPPED = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
TOKENIZERS = {
    "byte level": (BYTE_LEVEL, decoders.ByteLevel()),
    "pieces": (PIECES, decoders.Sequence(STRIPPED)),
}


def made(name: str) -> PreTrainedTokenizerFast:
    groups, decoder = TOKENIZERS[name]
    vocabulary = {token: i for i, token in enumerate(dict.fromkeys([END, *(token for one in groups for token in one)]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=END))
    tokenizer.decoder = decoder
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, additional_special_tokens=[SPECIAL])


ALL = {name: made(name) for name in TOKENIZERS}


def streamed(tokenizer: PreTrainedTokenizerFast, prompt: Sequence[int], tokens: Sequence[int]) -> str:
    """What vLLM does (`vllm.v1.engine.detokenizer.FastIncrementalDetokenizer`)."""
    stream = DecodeStream(ids=list(prompt), skip_special_tokens=True)
    return "".join(stream.step(tokenizer._tokenizer, token) or "" for token in tokens)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_the_text_is_that_of_decoding_token_by_token(name: str, data: st.DataObject) -> None:
    tokenizer, groups = ALL[name], st.sampled_from(TOKENIZERS[name][0])
    drawn = (data.draw(st.lists(groups, min_size=1, max_size=8)) for _ in range(2))
    prompt, tokens = (tokenizer.convert_tokens_to_ids([token for one in some for token in one]) for some in drawn)
    # A prompt does not end within a character.
    prompt.append(tokenizer.convert_tokens_to_ids("a"))
    assert response_text(tokenizer, frozenset({0}), prompt, [*tokens, 0]) == streamed(tokenizer, prompt, tokens)
    assert response_text(tokenizer, frozenset({0}), prompt, tokens) == streamed(tokenizer, prompt, tokens)


@given(text=st.text(min_size=1, max_size=8), cut=st.integers(0, 3))
@example(text="SELECT 😀", cut=2)
def test_a_text_is_whole_and_without_an_incomplete_last_character(text: str, cut: int) -> None:
    tokenizer = ALL["byte level"]
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces = "".join(piece for piece, _ in alphabet.pre_tokenize_str(text))
    tokens = [tokenizer.convert_tokens_to_ids(piece) for piece in pieces]
    tokens = tokens[: max(1, len(tokens) - cut)]
    prompt = [tokenizer.convert_tokens_to_ids("a")]
    assert response_text(tokenizer, frozenset(), prompt, tokens) == streamed(tokenizer, prompt, tokens)
    if cut == 0 and not text.endswith("\ufffd"):
        assert response_text(tokenizer, frozenset(), prompt, tokens) == text
