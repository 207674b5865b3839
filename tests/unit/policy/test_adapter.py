"""Adapters of peft, merged into their base."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import write_tiny_policy

from dphrl.policy.adapter import merge_adapter
from dphrl.policy.check_model import check_same_tokenizer
from dphrl.policy.logprobs import load_model
from dphrl.policy.users_model import import_checkpoint

QUERY = "model.layers.0.self_attn.q_proj"


def _adapter(base: Path, folder: Path, **settings: object) -> Path:
    """A LoRA adapter with an effect on the query and down projections, as peft saves it."""
    targets = {"target_modules": ["q_proj", "down_proj"], **settings}
    adapted = peft.get_peft_model(load_model(base, "float32"), peft.LoraConfig(r=2, lora_alpha=8, **targets))
    torch.manual_seed(1)
    for name, parameter in adapted.named_parameters():
        if any(part in name for part in ("lora_B", "lora_embedding_", "modules_to_save")):
            torch.nn.init.normal_(parameter, std=0.1)
    adapted.save_pretrained(folder)
    return folder


def _logits(folder: Path, adapter: Path | None = None) -> torch.Tensor:
    """The logits of eight tokens, of a model or of peft's own adapted model."""
    model = load_model(folder, "float32")
    with torch.no_grad():
        return (peft.PeftModel.from_pretrained(model, str(adapter)) if adapter else model)(torch.arange(8)[None]).logits


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_tiny_policy(tmp_path / "base").to(torch.bfloat16).save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def test_an_adapter_is_merged_in_float32_and_saved_in_the_type_of_the_base(base: Path, tmp_path: Path) -> None:
    adapter = _adapter(base, tmp_path / "adapter")
    (base / ".hidden").touch()
    import_checkpoint(tmp_path / "merged", adapter, base, *adapter.iterdir())
    assert not (tmp_path / "merged/.hidden").exists()
    check_same_tokenizer(tmp_path / "merged", base)
    before, after = (load_file(folder / "model.safetensors") for folder in (base, tmp_path / "merged"))
    deltas = load_file(adapter / "adapter_model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        low = [deltas.get(f"base_model.model.{name.removesuffix('.weight')}.lora_{part}.weight") for part in "BA"]
        change = 0 if low[0] is None else 8 / 2 * low[0] @ low[1]
        assert after[name].dtype == torch.bfloat16
        assert torch.equal(after[name], (tensor.float() + change).to(torch.bfloat16))
    assert not torch.equal(before[f"{QUERY}.weight"], after[f"{QUERY}.weight"])
    for name in ("config.json", "tokenizer.json"):
        assert (tmp_path / "merged" / name).read_bytes() == (base / name).read_bytes()
    assert not (tmp_path / "merged/adapter_config.json").exists()
    # The same inputs give the same bytes.
    merge_adapter(adapter, base, tmp_path / "again")
    assert all(
        (tmp_path / "again" / file.name).read_bytes() == file.read_bytes() for file in (tmp_path / "merged").iterdir()
    )


@pytest.mark.parametrize("changes", [{"hidden_size": 128}, {"num_hidden_layers": 1}])
def test_an_adapter_of_another_model_is_refused(base: Path, tmp_path: Path, changes: dict[str, int]) -> None:
    write_tiny_policy(tmp_path / "other", **changes)
    adapter, target = _adapter(base, tmp_path / "adapter"), tmp_path / "other"
    with pytest.raises(ValueError, match=r"its base is .*, with another"):
        merge_adapter(adapter, target, tmp_path / "merged")
    # Where the base is not on this machine, names and shapes decide.
    settings = adapter / "adapter_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"base_model_name_or_path": "org/model"}))
    with pytest.raises(ValueError, match=r"does not fit .*, so another model is its base"):
        merge_adapter(adapter, target, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_resized_embeddings_are_refused(base: Path, tmp_path: Path) -> None:
    adapter = _adapter(base, tmp_path / "adapter", modules_to_save=["embed_tokens"])
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if "embed_tokens" in name)
    save_file(tensors | {name: torch.cat([tensors[name], tensors[name][:2]])}, file)
    with pytest.raises(ValueError, match="embeddings were resized"):
        merge_adapter(adapter, base, tmp_path / "merged")


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_an_adapter_on_embeddings_or_head_is_merged_unless_the_base_ties_them(tmp_path: Path, target: str) -> None:
    base, tied = tmp_path / "base", tmp_path / "tied"
    write_tiny_policy(base)
    adapter = _adapter(base, tmp_path / "adapter", target_modules=["q_proj", target])
    merge_adapter(adapter, base, tmp_path / "merged")
    merged = _logits(tmp_path / "merged")
    torch.testing.assert_close(merged, _logits(base, adapter), rtol=1e-4, atol=1e-4)
    assert (merged - _logits(base)).abs().max() > 0.01
    write_tiny_policy(tied, tie_word_embeddings=True)
    adapter = _adapter(tied, tmp_path / "of tied", target_modules=["q_proj", target])
    with pytest.raises(ValueError, match=f"{target}.*, which are one tensor in the base: a merge would change both"):
        merge_adapter(adapter, tied, tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_an_adapter_that_keeps_embeddings_and_head_tied_is_merged(tmp_path: Path) -> None:
    base = tmp_path / "base"
    write_tiny_policy(base, tie_word_embeddings=True)
    both = {"modules_to_save": ["embed_tokens", "lm_head"], "ensure_weight_tying": True}
    adapter = _adapter(base, tmp_path / "adapter", **both)
    merge_adapter(adapter, base, tmp_path / "merged")
    torch.testing.assert_close(_logits(tmp_path / "merged"), _logits(base, adapter), rtol=1e-4, atol=1e-4)


def test_pickled_adapters_and_other_kinds_are_refused(base: Path, tmp_path: Path) -> None:
    adapter = _adapter(base, tmp_path / "adapter")
    pickled = shutil.copytree(adapter, tmp_path / "pickled")
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    with pytest.raises(ValueError, match="pickled weights are not loaded"):
        merge_adapter(pickled, base, tmp_path / "merged")
    settings = adapter / "adapter_config.json"
    settings.write_text(json.dumps({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 2}))
    with pytest.raises(ValueError, match="only LoRA can be merged"):
        merge_adapter(adapter, base, tmp_path / "merged")
