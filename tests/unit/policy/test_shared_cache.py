"""The shared cache gives the logits of the plain forward pass, whichever responses are added and removed."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model
from torch import Tensor
from transformers import PreTrainedModel

from dphrl.policy.shared_cache import SharedCache, compacted, install_shared_cache

VOCABULARY = 50
# More than _FIRST_POSITIONS, so that memory is allocated more than once.
LONGEST = 40
# Enough for some of the responses of a test: memory is allocated when needed, and freed when it is not.
MAX_TOKENS = 6 * LONGEST


def _model(kind: str, key_heads: int) -> PreTrainedModel:
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": key_heads}
    model = tiny_model(VOCABULARY, kind=kind, initializer_range=0.2, **sizes).eval().requires_grad_(False)
    install_shared_cache(model)
    return model


MODELS = [_model(kind, key_heads) for kind, key_heads in (("llama", 2), ("qwen2", 1))]
IDS = ["grouped-heads", "one-key-head"]


class Checked:
    """A cache and the texts that it should hold."""

    def __init__(self, model: PreTrainedModel, prompts: Sequence[list[int]], owner: Sequence[int]) -> None:
        self.model = model
        self.texts: list[list[int]] = []
        self.cache = SharedCache(model, max_tokens=MAX_TOKENS)
        self.admit(prompts, owner)

    def admit(self, prompts: Sequence[list[int]], owner: Sequence[int]) -> None:
        """Take in a response to each of these prompts."""
        logits = self.cache.admit([tuple(prompts[i]) for i in owner], LONGEST)
        fresh = [list(prompts[i]) for i in owner]
        self._compare(logits, fresh)
        self.texts += fresh

    def step(self, seed: int) -> None:
        """A random token behind each text."""
        tokens = torch.randint(VOCABULARY, (len(self.texts),), generator=torch.Generator().manual_seed(seed))
        for text, token in zip(self.texts, tokens.tolist(), strict=True):
            text.append(token)
        self._compare(self.cache.step(tokens), self.texts)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these texts, in this order."""
        self.texts = [self.texts[i] for i in rows]
        self.cache.keep(rows, LONGEST)

    def _compare(self, logits: Tensor, texts: Sequence[list[int]]) -> None:
        expected = [self.model(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1] for text in texts]
        torch.testing.assert_close(logits, torch.stack(expected), atol=2e-5, rtol=0)


@st.composite
def _groups(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Prompts of unequal length, and the owners of unequal numbers of responses in any order."""
    ids = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=12)
    prompts = draw(st.lists(ids, min_size=1, max_size=4))
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(prompts), max_size=len(prompts)))
    return prompts, draw(st.permutations([i for i, size in enumerate(sizes) for _ in range(size)]))


@pytest.mark.parametrize("model", MODELS, ids=IDS)
@settings(max_examples=15)
@given(data=st.data())
def test_responses_that_come_and_go_have_the_logits_of_the_plain_forward_pass(
    model: PreTrainedModel, data: st.DataObject
) -> None:
    checked = Checked(model, *data.draw(_groups()))
    for seed, action in enumerate(data.draw(st.lists(st.sampled_from(["step", "keep", "admit"]), max_size=6))):
        if action == "keep":
            rows = data.draw(st.permutations(range(len(checked.texts))))
            checked.keep(rows[: data.draw(st.integers(0, len(rows)))])
        if action == "admit" or not checked.texts:
            checked.admit(*data.draw(_groups()))
        checked.step(seed)


def test_responses_grow_to_their_longest_in_room_for_no_more() -> None:
    checked = Checked(MODELS[0], [[3, 4, 5], [6]], [0, 0, 1])
    for seed in range(LONGEST):
        checked.step(seed)
    assert {layer.keys.shape[2] for layer in checked.cache._layers.values()} == {LONGEST}


def test_those_that_stay_are_not_copied() -> None:
    checked = Checked(MODELS[0], [[3, 4, 5], [6, 7]], [0, 1, 1, 0])
    checked.step(0)
    (layer, *_) = checked.cache._layers.values()
    before = [states.data_ptr() for states in vars(layer).values()]
    checked.keep(compacted([1, 2]))
    checked.admit([[8, 9], [6, 7]], [0, 1])
    checked.step(1)
    assert checked.cache.prompts == [(6, 7), (8, 9)]
    assert [states.data_ptr() for states in vars(layer).values()] == before


@given(st.sets(st.integers(0, 30)))
def test_compacted_rows_move_into_the_gaps(rows: set[int]) -> None:
    order = compacted(sorted(rows))
    assert set(order) == rows
    assert all(order[row] == row for row in rows if row < len(rows))


def test_a_prompt_that_is_there_is_not_computed_again() -> None:
    checked = Checked(MODELS[0], [[3, 4, 5]], [0])
    checked.step(0)
    passes: list[int] = []
    hook = MODELS[0].register_forward_pre_hook(lambda *_: passes.append(1))
    logits = checked.cache.admit([(3, 4, 5)], LONGEST)
    hook.remove()
    assert not passes
    checked._compare(logits, [[3, 4, 5]])


def test_a_response_that_is_over_disturbs_no_other() -> None:
    checked = Checked(MODELS[0], [[3, 4, 5]], [0, 0])
    for seed in range(LONGEST):
        checked.step(seed)
    checked.admit([[7, 8]], [0])
    # The first two have their maximum length.
    checked.cache.step(torch.tensor([1, 2, 9]))
    checked.keep([2])
    checked.texts[0].append(9)
    checked.step(0)
