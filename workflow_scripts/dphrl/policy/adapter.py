"""A peft adapter as a policy: merged into its base, in float32, and saved in the type of the base."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig, PreTrainedModel

from dphrl.policy.limited import reading
from dphrl.policy.logprobs import load_model
from dphrl.store.files import replacing_folder

SETTINGS, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def merge_adapter(adapter: Path, base: Path, folder: Path) -> None:
    """Write the base with an adapter merged into its weights; everything else in the folder is the base's, by links.

    Args:
        adapter: a folder of peft.
        base: a folder of Hugging Face.
        folder: whose files are replaced.

    Raises:
        ValueError: the adapter is no LoRA, its weights are pickles, it separates embeddings and output head that the
            base ties, or it does not fit the base: its layers or shapes differ, such as resized embeddings, or it names
            the folder of another model as its base.
    """
    import peft

    if not (adapter / _WEIGHTS).is_file():
        raise ValueError(f"{adapter}: no {_WEIGHTS}; save the adapter as safetensors, pickled weights are not loaded")
    with reading(f"{adapter / SETTINGS}: no settings of an adapter", "save the adapter again with peft"):
        settings = peft.PeftConfig.from_pretrained(str(adapter))
    if settings.peft_type != peft.PeftType.LORA:
        raise ValueError(f"{adapter}: an adapter of type {settings.peft_type}; only LoRA can be merged into a model")
    _check_base_of(adapter, base)
    model = load_model(base, "float32")
    _check_tied(adapter, model)
    # Loading changed the type in the configuration of the model.
    kind = AutoConfig.from_pretrained(base, local_files_only=True, trust_remote_code=False).dtype or torch.float32
    problem = f"{adapter}: it does not fit {base}, so another model is its base, or embeddings were resized"
    with reading(problem, f"see target_modules and r in {SETTINGS}"):
        adapted = peft.PeftModel.from_pretrained(model, str(adapter))
    # peft leaves out tensors of layers that the model lacks.
    names = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False).keys()
    with safe_open(adapter / _WEIGHTS, framework="pt") as file:
        stored = sorted(file.keys())
    # An adapter on the embeddings stores the embeddings of its base too, as `base_layer`.
    if unknown := [name for name in stored if name not in names and ".base_layer." not in name]:
        raise ValueError(f"{problem} (the base has no layer for {unknown[0]})")
    merged = adapted.merge_and_unload(safe_merge=True).to(kind)
    with replacing_folder(folder) as written:
        merged.save_pretrained(written)
        for file in base.glob("[!.]*"):  # Snakemake keeps a hidden file there
            if file.is_file() and file.suffix != ".safetensors" and not file.name.endswith(".index.json"):
                (written / file.name).unlink(missing_ok=True)
                (written / file.name).symlink_to(file.resolve())


def _check_base_of(adapter: Path, base: Path) -> None:
    """Compare the base with the folder that the adapter names, if it is on this machine, by sizes in config.json."""
    named = str(json.loads((adapter / SETTINGS).read_text(encoding="utf-8")).get("base_model_name_or_path") or "")
    theirs = Path(named) / "config.json"
    if not (named and theirs.is_file()):
        return
    # Libraries write other keys of this file anew.
    sizes = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    ours, other = (json.loads(file.read_text(encoding="utf-8")) for file in (base / "config.json", theirs))
    if different := [key for key in sizes if ours.get(key) != other.get(key)]:
        raise ValueError(f"{adapter}: its base is {named}, with another {different[0]} than the base of this run")


def _check_tied(adapter: Path, model: PreTrainedModel) -> None:
    """Where embeddings and head are one tensor, an adapter must leave both as they are, or store one for both."""
    shared = model.get_input_embeddings().weight
    tied = [name for name, layer in model.named_modules() if getattr(layer, "weight", None) is shared]
    if len(tied) == 1:
        return
    # As peft stores them with `ensure_weight_tying`, where `modules_to_save` has both.
    copies = sorted(f"base_model.model.{name}.weight" for name in tied)
    with safe_open(adapter / _WEIGHTS, framework="pt") as file:
        changed = [name for name in sorted(file.keys()) if any(f".{layer}." in name for layer in tied)]
        if changed == copies and torch.equal(*map(file.get_tensor, copies)):
            return
    if changed:
        raise ValueError(
            f"{adapter}: {changed[0]} belongs to {' or '.join(tied)}, which are one tensor in the base: a merge would"
            " change both. Train the adapter without them, or on a base with tie_word_embeddings: false"
        )
