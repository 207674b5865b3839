"""The shipped base of the default world: its size, and its figures in short form. Outcomes of RL are not asserted."""

from pathlib import Path

from base_figures import DEFAULT, base_figures

from dphrl.config.load import read_config
from dphrl.model.logprobs import load_model

BASE = DEFAULT.parent / "world-1"


def test_the_shipped_base_is_small_and_has_the_shape_of_the_default_world() -> None:
    assert (BASE / "model.safetensors").stat().st_size <= 4e6
    config = read_config(DEFAULT)
    shape = load_model(BASE, "float32").config
    assert config.policy.base
    assert (DEFAULT.parents[1] / config.policy.base).resolve() == BASE
    assert config.toy
    model = config.toy.model
    assert (shape.num_hidden_layers, shape.hidden_size) == (model.layers, model.width)
    assert (shape.num_attention_heads, shape.intermediate_size) == (model.heads, model.feed_forward)
    assert shape.vocab_size == config.toy.vocabulary


def test_its_figures_meet_the_rules_of_acceptance(tmp_path: Path) -> None:
    found = base_figures(BASE, tmp_path)
    # The rules of docs/decisions/the-world.md, for 60 and 24 questions in place of 300 and 120.
    assert 80 <= found["ambiguous@16"] <= 99
    assert 68 <= found["ambiguous@8"] <= 95
    assert found["ambiguous@16"] - found["forced ambiguous"] >= 25
    assert found["plain"] >= 95
    assert found["forced plain"] >= 95
    assert found["styles"] >= 4
    assert found["radii"] >= 4
