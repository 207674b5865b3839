"""Checks of a base model before sampling: its files are complete, finite, and fit its config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from string import ascii_letters, digits

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    __version__,
)

from dphrl.model_config import model_settings
from dphrl.policy.limited import reading
from dphrl.policy.logprobs import OWN_CHOICE, check_head, filled, refuse_adapter, untied

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_TOKENIZER = "expected tokenizer.json and tokenizer_config.json of this model"
_TEXT = " ".join(ascii_letters + digits)
# Of one character, in any encoding.
_MOST_TOKENS = 4
_AGAIN = "download the model again"


def check_base(folder: Path) -> None:
    """Check that a model can be trained, and that its files are complete: each tensor is read once, one after another.

    Args:
        folder: of Hugging Face, with config, tokenizer and safetensors.

    Raises:
        ValueError: a part is missing, damaged or cannot be used; the text names the file or the tensor.
    """
    refuse_adapter(folder)
    files = tensor_files(folder)
    # Before a layer is built; other sizes cost nothing there.
    settings = model_settings(config := _config_file(folder))
    text = settings.get("text_config")
    layers = (text if isinstance(text, dict) else settings).get("num_hidden_layers")
    if isinstance(layers, int) and layers > len(files):
        raise ValueError(f"{config}: num_hidden_layers is {layers}, and {len(files)} tensors are stored: {_AGAIN}")
    model = check_model(folder)
    check_tokenizer(folder)
    tied: Mapping[str, str] = {}
    # The tensors of a quantized model have names and shapes of its library, which only the engine knows.
    if getattr(model.config, "quantization_config", None) is None:
        # Names and shapes as transformers matches them.
        shapes = {name: shape for file in {*files.values()} for name, shape in _shapes(file).items()}
        tensors = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
        options = {"config": model.config, "state_dict": tensors, "device_map": {"": "meta"}, "dtype": torch.float32}
        tied = filled(type(model), folder, None, **options).all_tied_weights_keys
    _check_values(folder, files, tied)


def check_model(folder: Path) -> PreTrainedModel:
    """Check by its configuration that a model can be trained.

    Args:
        folder: of Hugging Face, with a config.json.

    Returns:
        The model without memory for its weights.

    Raises:
        ValueError: there is none, transformers does not include this model as a causal language model, or the model
            changes its logits after the head.
    """
    problem = f"{_config_file(folder)}: not a causal language model of transformers {__version__}"
    advice = "code of a model is never executed; use another base model, or a version of transformers that includes it"
    with reading(problem, advice):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(config, trust_remote_code=False, **OWN_CHOICE)
    check_head(config.get_text_config())
    return model


def _config_file(folder: Path) -> Path:
    file = folder / "config.json"
    if not file.is_file():
        raise ValueError(f"{folder}: no config.json: policy.base is the folder of a model in the form of Hugging Face")
    return file


def check_tokenizer(folder: Path) -> None:
    """Raise `ValueError` unless transformers can load the tokenizer of a folder, with a vocabulary."""
    tokenizer = _load_tokenizer(folder)
    with _reading_tokenizer(folder):
        tokens = tokenizer(_TEXT, add_special_tokens=False)["input_ids"]
    if not tokens:
        raise ValueError(f"{folder}: its tokenizer has no vocabulary; {_TOKENIZER}")
    if len(tokens) > _MOST_TOKENS * len(_TEXT):
        problem = f"its tokenizer makes {len(tokens)} tokens of {len(_TEXT)} characters"
        raise ValueError(f"{folder}: {problem}: does a normalizer in tokenizer.json multiply text? {_AGAIN}")


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    with _reading_tokenizer(folder):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    return tokenizer


def _reading_tokenizer(folder: Path) -> AbstractContextManager[None]:
    return reading(f"{folder}: no tokenizer that can be used", _TOKENIZER)


def check_same_tokenizer(folder: Path, base: Path) -> None:
    """Raise `ValueError` unless a checkpoint and the base have the same tokenizer and the same end tokens.

    Prompts are tokenised once. Contents are compared and not files, as trainers write tokenizer_config.json anew.
    """
    ours, theirs = map(_load_tokenizer, (folder, base))
    for part, get in (
        ("vocabulary", lambda tokenizer: tokenizer.get_vocab()),
        ("added tokens", lambda tokenizer: tokenizer.get_added_vocab()),
        ("end token", lambda tokenizer: tokenizer.eos_token_id),
        ("chat template", lambda tokenizer: tokenizer.chat_template),
    ):
        if get(ours) != get(theirs):
            raise ValueError(
                f"{folder}: another {part} than the base has, so the run's prompts are not this model's; its recorded "
                "answers can be compared under the key `replay`"
            )
    # The folder of an adapter holds no model; its end tokens are the base's.
    if (folder / "config.json").is_file() and _ends(folder) != _ends(base):
        raise ValueError(
            f"{folder}: its responses end with the tokens {sorted(_ends(folder))}, those of the base with "
            f"{sorted(_ends(base))}: give generation_config.json the eos_token_id of the base"
        )


def _ends(folder: Path) -> set[int]:
    """The end tokens that generation uses by default, of a model's folder."""
    with reading(f"{folder}: no end tokens", "expected eos_token_id in generation_config.json or config.json"):
        try:
            ends = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
        except OSError:
            ends = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False).eos_token_id
        return set(ends) if isinstance(ends, list) else {ends} - {None}


def tensor_files(folder: Path) -> dict[str, Path]:
    """The file of each tensor of a model, by the headers of its files and the index.

    Raises:
        ValueError: weights are missing, a file is not complete, or the index does not fit the files.
    """
    single, index = folder / _WEIGHTS, folder / _INDEX
    present = sorted(folder.glob("*.safetensors"))
    if single.is_file() and index.is_file():
        raise ValueError(f"{folder}: both {_WEIGHTS} and {_INDEX}: remove what does not belong to the model")
    if single.is_file():
        if others := [file.name for file in present if file != single]:
            raise ValueError(f"{folder / others[0]}: not part of {_WEIGHTS}, but vLLM would load it: move it elsewhere")
        return dict.fromkeys(_shapes(single), single)
    if not index.is_file():
        problem = f"neither {_WEIGHTS} nor {_INDEX}, only {present[0].name}" if present else "no *.safetensors in it"
        raise ValueError(f"{folder}: {problem}; convert the model, pickled weights are not loaded")
    listed = _listed(index)
    files: dict[str, Path] = {}
    for file in sorted({folder / name for name in listed.values()}):
        if not file.is_file():
            raise ValueError(f"{file}: missing, though {_INDEX} lists it: {_AGAIN}")
        for name in _shapes(file):
            if name in files:
                raise ValueError(f"{file}: tensor {name} is in {files[name].name} too: {_AGAIN}")
            files[name] = file
    for name, place in listed.items():
        if files.get(name) != folder / place:
            raise ValueError(f"{folder / place}: no tensor {name}, though {_INDEX} lists it there: {_AGAIN}")
    return files


def _listed(index: Path) -> dict[str, str]:
    """The name of the file of each tensor, by the index."""
    try:
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        named = all(isinstance(name, str) and name == Path(name).name for name in listed.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        named = False
    if not named:
        raise ValueError(f"{index}: expected JSON with a `weight_map` from tensors to files of this folder: {_AGAIN}")
    return dict(listed)


def _shapes(file: Path) -> dict[str, list[int]]:
    """The shapes of the tensors in a file, by its header."""
    try:
        with safe_open(file, framework="pt") as content:
            return {name: content.get_slice(name).get_shape() for name in content.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file}: not a complete safetensors file ({error}): {_AGAIN}") from error


def _check_values(folder: Path, files: Mapping[str, Path], tied: Mapping[str, str]) -> None:
    """Check that all weights are finite, and that tied weights which are both stored are the same.

    At most two tensors are in memory.
    """
    for file in sorted({*files.values()}):
        with safe_open(file, framework="pt") as content:
            for name in content.keys():  # noqa: SIM118 - no mapping
                tensor = content.get_tensor(name)
                if not _finite(tensor):
                    raise ValueError(f"{file}: tensor {name} has values that are NaN or infinite: {_AGAIN}")
                twin = tied.get(name, "")
                if twin in files:
                    with safe_open(files[twin], framework="pt") as other:
                        if not torch.equal(tensor, other.get_tensor(twin)):
                            raise ValueError(untied(folder))


def _finite(tensor: Tensor) -> bool:
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    # Without a tensor of flags: a NaN makes both extremes NaN. Types of 8 bits have no extremes.
    extremes = (tensor.float() if tensor.itemsize == 1 else tensor).aminmax()
    return all(bool(value.isfinite()) for value in extremes)
