"""A GGUF file of a small model, written with the library of llama.cpp."""

from pathlib import Path

import gguf
import numpy as np
from transformers import PreTrainedModel

TEMPLATE = "{% for message in messages %}{{ message['role'] + ':' + message['content'] + '!' }}{% endfor %}"
BYTES = [*"abcdefghijklmnopqrstuvwxyz0123456789!:'", "Ġ", "Ċ", "ab"]


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys as llama.cpp has them: the two halves of a head in turn."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, model: PreTrainedModel) -> Path:
    """Weights as Q8_0 where they are matrices of a layer, else float32."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    tokens = ["<pad>", "<eos>", *BYTES]
    tokens += [f"<unused{number}>" for number in range(config.vocab_size - len(tokens))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token.startswith("<") else 1 for token in tokens])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        weight = parameter.detach().numpy()
        if "q_proj" in name:
            weight = interleaved(weight, config.num_attention_heads)
        if "k_proj" in name:
            weight = interleaved(weight, config.num_key_value_heads)
        kind = gguf.GGMLQuantizationType.Q8_0 if "_proj" in name else gguf.GGMLQuantizationType.F32
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight",)), gguf.quants.quantize(weight, kind), raw_dtype=kind
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
