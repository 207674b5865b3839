"""What is wrong with the folder of a base model is named before anything is drawn; what is only odd is taken."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import write_tiny_policy, write_tokenizer
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3MoeConfig,
)
from transformers.utils.logging import enable_progress_bar

from dphrl.policy.check_model import check_base, check_same_tokenizer
from dphrl.policy.logprobs import load_model

DOWN, NORM, HEAD = "model.layers.0.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"
EMBEDDINGS = "model.embed_tokens.weight"
OLD_BUFFER = "model.layers.0.self_attn.rotary_emb.inv_freq"
INDEX = "model.safetensors.index.json"


def _edit(folder: Path, change: Callable[[dict[str, Tensor]], object], name: str = "model.safetensors") -> None:
    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name, {"format": "pt"})


def _edit_json(file: Path, change: Callable[[dict], object]) -> None:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def _drop(name: str) -> Callable[[Path], None]:
    return lambda folder: _edit(folder, lambda tensors: tensors.pop(name))


def _add(name: str, tensor: Tensor) -> Callable[[Path], None]:
    return lambda folder: _edit(folder, lambda tensors: tensors.update({name: tensor}))


def _set(name: str, value: float) -> Callable[[Path], None]:
    return lambda folder: _edit(folder, lambda tensors: tensors[name].view(-1)[7].fill_(value))


def _cut(name: str, size: int) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _remove(*names: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).unlink() for name in names] and None


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A model in one file."""
    write_tiny_policy(tmp_path)
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """The model in several files."""
    write_tiny_policy(tmp_path).save_pretrained(tmp_path, max_shard_size="80kB")
    (tmp_path / "model.safetensors").unlink()
    check_base(tmp_path)
    return tmp_path


LISTED = "expected JSON with a `weight_map`"
BROKEN = {
    "a tensor is missing": (_drop(DOWN), rf"no {DOWN}\. Download the model again"),
    "many tensors are missing": (
        lambda folder: _edit(folder, lambda tensors: [tensors.pop(n) for n in [*tensors] if "layers.1." in n]),
        r"no model\.layers\.1\.\S+, \S+, \S+ and 6 more",
    ),
    "a tensor is of another model": (_add("score.weight", torch.zeros(2)), r"unknown score\.weight"),
    "a tensor has another shape": (_add(NORM, torch.zeros(3)), rf"wrong {NORM} of shape \(3,\) instead of \(64,\)"),
    "a NaN": (_set(DOWN, float("nan")), rf"model\.safetensors: tensor {DOWN} has values that are NaN or infinite"),
    "a head that is stored although it is tied, and differs": (
        lambda folder: _edit_json(folder / "config.json", lambda config: config.update(tie_word_embeddings=True)),
        "tie_word_embeddings: true, but the stored output head differs",
    ),
    "half of a file": (_cut("model.safetensors", 100_000), r"model\.safetensors: not a complete safetensors file"),
    "weights that only vLLM would load": (
        lambda folder: save_file({"a": torch.zeros(1)}, folder / "more.safetensors"),
        r"more\.safetensors: not part of model\.safetensors, but vLLM would load it: move it elsewhere",
    ),
    "weights under another name": (
        lambda folder: (folder / "model.safetensors").rename(folder / "weights.safetensors"),
        r"neither model\.safetensors nor model\.safetensors\.index\.json, only weights\.safetensors",
    ),
    "pickled weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        r"no \*\.safetensors in it; convert the model, pickled weights are not loaded",
    ),
    "one file and an index": (_write(INDEX, "{}"), r"both model\.safetensors and model\.safetensors\.index\.json"),
    "no config": (_remove("config.json"), r"no config\.json"),
    "no causal language model": (
        lambda folder: _edit_json(folder / "config.json", lambda config: config.update(model_type="t5")),
        r"config\.json: not a causal language model of transformers",
    ),
    "no tokenizer": (_remove("tokenizer.json", "tokenizer_config.json"), "no tokenizer that can be used"),
    "a tokenizer without its vocabulary": (
        lambda folder: (
            (folder / "tokenizer.json").unlink(),
            _edit_json(folder / "tokenizer_config.json", lambda c: c.update(tokenizer_class="LlamaTokenizer")),
        ),
        "its tokenizer has no vocabulary",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_with_a_base_model_is_named(name: str, whole: Path) -> None:
    check_base(whole)
    harm, words = BROKEN[name]
    harm(whole)
    with pytest.raises(ValueError, match=words) as caught:
        check_base(whole)
    assert str(whole) in str(caught.value)


def _shard(folder: Path, number: int) -> Path:
    return sorted(folder.glob("*.safetensors"))[number]


BROKEN_INDEX: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file is missing": (lambda f: _shard(f, 1).unlink(), r"-00002-of-\d+\.safetensors: missing, though .* lists it"),
    "a file is cut": (
        lambda f: _cut(_shard(f, 1).name, 1000)(f),
        r"-00002-of-\d+\.safetensors: not a complete safetensors file",
    ),
    "a file lacks a tensor": (
        lambda f: _edit(f, lambda tensors: tensors.popitem(), _shard(f, 1).name),
        r"-00002-of-\d+\.safetensors: no tensor model\.\S+, though",
    ),
    "a tensor is in two files": (
        lambda f: _edit(f, lambda tensors: tensors.update({NORM: torch.ones(64)}), _shard(f, 0).name),
        rf"tensor {NORM} is in model-00001-of-\d+\.safetensors too",
    ),
    "the index lacks a file": (
        lambda f: _edit_json(
            f / INDEX,
            lambda data: data.update(
                weight_map={n: p for n, p in data["weight_map"].items() if p != _shard(f, 1).name}
            ),
        ),
        "its weights are not those of the model in config.json: no model",
    ),
    "deep": (_write(INDEX, "[" * 100_000), LISTED),
    "a file elsewhere": (_write(INDEX, '{"weight_map": {"a": "../model.safetensors"}}'), LISTED),
}


@pytest.mark.parametrize("name", BROKEN_INDEX)
def test_what_is_wrong_with_a_model_in_several_files_is_named(name: str, sharded: Path) -> None:
    harm, words = BROKEN_INDEX[name]
    harm(sharded)
    with pytest.raises(ValueError, match=words) as caught:
        check_base(sharded)
    assert str(sharded) in str(caught.value)


def test_files_that_an_index_leaves_out_are_not_read(sharded: Path) -> None:
    """Neither engine nor trainer reads them; some models have their weights in a second form."""
    (sharded / "consolidated.safetensors").write_text("")
    check_base(sharded)


@pytest.mark.parametrize("tied", [True, False])
def test_tensors_that_other_versions_store_are_taken(tmp_path: Path, tied: bool) -> None:
    write_tiny_policy(tmp_path, tie_word_embeddings=tied)
    _add(OLD_BUFFER, torch.ones(16))(tmp_path)
    if tied:
        _edit(tmp_path, lambda tensors: tensors.update({HEAD: tensors[EMBEDDINGS].clone()}))
    check_base(tmp_path)
    load_model(tmp_path, "float32")


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
SMALL |= {"intermediate_size": 16, "vocab_size": 64}
EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 8}


@pytest.mark.parametrize(
    ("config", "more"),
    [
        (Qwen2Config(**SMALL, tie_word_embeddings=True), {}),
        (GPT2Config(n_embd=16, n_layer=2, n_head=2, vocab_size=64), {"h.0.attn.bias": torch.ones(1, 1, 8, 8)}),
        (MixtralConfig(**SMALL, **EXPERTS), {}),
        (Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=8), {}),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_other_models_are_taken_and_checked(config: PreTrainedConfig, more: dict[str, Tensor], tmp_path: Path) -> None:
    """Also those whose tensors have other names in the file than in the model."""
    write_tokenizer(tmp_path)
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    _edit(tmp_path, lambda tensors: tensors.update(more))
    check_base(tmp_path)
    load_model(tmp_path, "float32")
    lost = sorted(name for name in load_file(tmp_path / "model.safetensors") if ".1." in name)[0]
    _drop(lost)(tmp_path)
    for check in (check_base, lambda folder: load_model(folder, "float32")):
        with pytest.raises(
            ValueError, match=r"its weights are not those of the model in config\.json: (no|wrong|some) "
        ):
            check(tmp_path)


def test_a_tied_head_that_differs_is_not_loaded(whole: Path) -> None:
    """Only the trainer would use it."""
    harm, words = BROKEN["a head that is stored although it is tied, and differs"]
    harm(whole)
    with pytest.raises(ValueError, match=words):
        load_model(whole, "float32")


@pytest.mark.parametrize("flags", [{"temperature": 0.9, "top_p": 0.6}, {"pad_token_id": -1}])
def test_a_model_whose_flags_of_sampling_contradict_each_other_can_be_saved(flags: dict[str, Any], whole: Path) -> None:
    (whole / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 7], **flags}))
    model = load_model(whole, "float32")
    assert model.generation_config.eos_token_id == [1, 7]
    model.save_pretrained(whole / "saved")


def test_loading_a_model_prints_no_progress(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    enable_progress_bar()
    load_model(whole, "float32")
    assert capfd.readouterr() == ("", "")


def test_a_complete_adapter_is_not_applied(whole: Path) -> None:
    import peft

    model = load_model(whole, "float32")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"]))
    adapted.save_pretrained(whole)
    for check in (check_base, lambda folder: load_model(folder, "float32")):
        with pytest.raises(ValueError, match=re.escape(f"{whole / 'adapter_config.json'}: {whole} is an adapter")):
            check(whole)


def test_the_weights_of_a_quantized_model_are_read_but_not_compared(whole: Path) -> None:
    _edit_json(
        whole / "config.json", lambda config: config.update(quantization_config={"quant_method": "gptq", "bits": 4})
    )
    _edit(
        whole,
        lambda tensors: tensors.update({"model.layers.0.mlp.down_proj.qweight": torch.ones(4, dtype=torch.int32)}),
    )
    _drop(DOWN)(whole)
    check_base(whole)
    _set(NORM, float("nan"))(whole)
    with pytest.raises(ValueError, match=f"tensor {NORM} has values"):
        check_base(whole)


def test_types_of_eight_bits_are_read(whole: Path) -> None:
    _edit(whole, lambda tensors: tensors.update({NORM: tensors[NORM].to(torch.float8_e4m3fn)}))
    check_base(whole)
    _edit(whole, lambda tensors: tensors.update({NORM: torch.full((64,), float("nan")).to(torch.float8_e4m3fn)}))
    with pytest.raises(ValueError, match=f"tensor {NORM} has values"):
        check_base(whole)


@pytest.fixture
def other(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the model."""
    return shutil.copytree(whole, tmp_path_factory.mktemp("other") / "checkpoint")


def test_a_checkpoint_must_have_the_tokenizer_of_the_base(whole: Path, other: Path) -> None:
    # Another form of the same: trainers write tokenizer_config.json anew.
    AutoTokenizer.from_pretrained(whole).save_pretrained(other)
    check_same_tokenizer(other, whole)
    tokenizer = AutoTokenizer.from_pretrained(other)
    tokenizer.chat_template = "{{ messages }}"
    tokenizer.save_pretrained(other)
    with pytest.raises(ValueError, match="another chat template than the base has"):
        check_same_tokenizer(other, whole)
    tokenizer.chat_template = None
    tokenizer.add_tokens(["<think>"])
    tokenizer.save_pretrained(other)
    (other / "chat_template.jinja").unlink(missing_ok=True)
    with pytest.raises(ValueError, match="another vocabulary than the base has"):
        check_same_tokenizer(other, whole)


def test_a_checkpoint_must_end_its_responses_as_the_base_does(whole: Path, other: Path) -> None:
    ends = AutoTokenizer.from_pretrained(whole).eos_token_id
    for folder, value in ((whole, ends), (other, [ends])):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": value}))
    check_same_tokenizer(other, whole)
    (other / "generation_config.json").write_text(json.dumps({"eos_token_id": [ends, 7]}))
    with pytest.raises(ValueError, match=rf"end with the tokens \[{ends}, 7\], those of the base with \[{ends}\]"):
        check_same_tokenizer(other, whole)
