"""Base models of the embedded world: reproducible training, batches that cover the corpus, the shipped base."""

import json
from pathlib import Path

import pytest
import torch
from base_figures import DEFAULT, base_figures
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import enable_progress_bar

from dphrl.config.blocks.policy import SupervisedOptimizer
from dphrl.config.blocks.toy import ToyConfig, ToyModel, ToyQuestions
from dphrl.config.load import read_config
from dphrl.policy.logprobs import load_model
from dphrl.toy.base_model import toy_start
from dphrl.toy.world import build_world
from dphrl.training.supervised import train_supervised

SHIPPED = DEFAULT.parent / "world-1"
TINY = ToyConfig(
    questions=ToyQuestions(train=20, in_domain=20, cross=20, maths=20),
    corpus=400,
    vocabulary=300,
    model=ToyModel(layers=2, width=32, heads=2, feed_forward=64),
    threads=1,
    optimizer=SupervisedOptimizer(steps=3, batch=40, warmup=1, lr=1e-2),
)


pytestmark = pytest.mark.usefixtures("denormals")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy") / "world"
    build_world(folder, TINY)
    return folder


def trained(world: Path, out: Path, config: ToyConfig = TINY) -> Path:
    """The folder `out`, with the world's base in it."""
    start = toy_start(world, config)
    train_supervised(start, config.training(), out / "none", "", lambda steps: None)
    start.save(out)
    return out


@pytest.fixture(scope="module")
def base(world: Path) -> Path:
    return trained(world, world.parent / "base")


def test_training_twice_gives_the_same_bytes_and_prints_nothing(
    world: Path, base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    enable_progress_bar()
    torch.manual_seed(123)
    state = torch.random.get_rng_state()
    trained(world, tmp_path)
    assert capfd.readouterr() == ("", "")
    names = sorted(path.name for path in base.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    assert {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json"} <= set(names)
    assert [name for name in names if (base / name).read_bytes() != (tmp_path / name).read_bytes()] == []
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_folder_is_an_ordinary_hugging_face_model(world: Path, base: Path) -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base)
    assert model.dtype == torch.float32
    assert model.config.tie_word_embeddings is False
    assert model.get_input_embeddings().weight.data_ptr() != model.get_output_embeddings().weight.data_ptr()
    assert model.config.max_position_embeddings == 256
    assert (model.generation_config.eos_token_id, model.generation_config.pad_token_id) == (1, 0)
    prompt = json.loads((world / "questions" / "train.jsonl").read_text().splitlines()[0])["prompt"]
    ids = tokenizer(prompt)["input_ids"]
    assert ids == AutoTokenizer.from_pretrained(world / "tokenizer")(prompt)["input_ids"]
    assert tokenizer.decode(ids) == prompt
    assert model.generate(torch.tensor([ids]), max_new_tokens=4, do_sample=False).shape[1] > len(ids)


def test_a_row_that_is_too_long_is_named(world: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer").symlink_to(world / "tokenizer")
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"prompt": "Q: ", "response": "9" * 300}) + "\n")
    with pytest.raises(ValueError, match=r"line 1: .* at most 256"):
        toy_start(tmp_path, TINY)


def test_the_shipped_base_is_small_and_has_the_shape_of_the_default_world() -> None:
    assert (SHIPPED / "model.safetensors").stat().st_size <= 4e6
    config = read_config(DEFAULT)
    shape = load_model(SHIPPED, "float32").config
    assert config.policy.base
    assert (DEFAULT.parents[1] / config.policy.base).resolve() == SHIPPED
    assert config.toy
    model = config.toy.model
    assert (shape.num_hidden_layers, shape.hidden_size) == (model.layers, model.width)
    assert (shape.num_attention_heads, shape.intermediate_size) == (model.heads, model.feed_forward)
    assert shape.vocab_size == config.toy.vocabulary


def test_the_shipped_base_meets_the_rules_of_acceptance(tmp_path: Path) -> None:
    """Of its figures; outcomes of RL are not asserted."""
    figures = base_figures(SHIPPED, tmp_path)
    # The rules of docs/decisions/the-world.md, for 60 and 24 questions in place of 300 and 120.
    assert 80 <= figures["ambiguous@16"] <= 99
    assert 68 <= figures["ambiguous@8"] <= 95
    assert figures["ambiguous@16"] - figures["forced ambiguous"] >= 25
    assert figures["plain"] >= 95
    assert figures["forced plain"] >= 95
    assert figures["styles"] >= 4
    assert figures["radii"] >= 4
