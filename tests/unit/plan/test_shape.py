"""Numbers of parameters from config.json alone, against the models that transformers builds from it."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from dphrl.plan.shape import ModelShape

SMALL = {
    "num_hidden_layers": 3,
    "hidden_size": 64,
    "vocab_size": 300,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("more", [{}, {"tie_word_embeddings": True}, {"head_dim": 24}, {"num_key_value_heads": 4}])
@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_as_many_parameters_as_the_model_has(kind, more):
    config = AutoConfig.for_model(kind, **{**SMALL, **more})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    found = ModelShape.from_config(config.to_dict())
    assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert found.largest == max(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("more", [{"attention_bias": True}, {"mlp_bias": True}])
def test_biases_of_llama_count(more):
    config = AutoConfig.for_model("llama", **{**SMALL, **more})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert ModelShape.from_config(config.to_dict()).parameters == sum(one.numel() for one in model.parameters())


def test_the_cache_of_llama_8b_holds_196608_tokens_in_24_gib():
    config = {**SMALL, "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 8}
    assert 24 * 2**30 // ModelShape.from_config(config).cache_bytes(2) == 196_608


def test_other_architectures_and_missing_sizes_are_named():
    with pytest.raises(ValueError, match="model_type 'mixtral': sizes are known for llama"):
        ModelShape.from_config({"model_type": "mixtral"})
    with pytest.raises(ValueError, match="lacks vocab_size"):
        ModelShape.from_config({**SMALL, "model_type": "llama", "vocab_size": None})
