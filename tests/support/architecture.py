"""The program of a test: a real architecture, cut to few layers, from the reference to a resumed training.

Arguments: the name of an architecture, a folder, and the part: write, train or resume. Prints one line of JSON: the
largest gaps of log-probs in nats, and the peak of the memory in GiB. Widths, vocabulary, biases, heads, head size, the
number of tokens of the tokenizer and its special tokens are those of the released models.
"""

from __future__ import annotations

import json
import resource
import sys
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.model.batch import Row
from dphrl.model.logprobs import LogProbs, load_model, response_logprobs
from dphrl.ranks.collectives import start_process_group
from dphrl.rollout.engine import make_engine
from dphrl.rollout.requests import Request
from dphrl.training.checks import Canary, WeightSync
from dphrl.training.loss import Example
from dphrl.training.trainer import Trainer

_LLAMA = {"vocab_size": 128_256, "num_key_value_heads": 8, "num_attention_heads": 32, "rms_norm_eps": 1e-5}
_QWEN = {"rope_theta": 1e6, "rms_norm_eps": 1e-6}
_QWEN_ADDED = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>"),
    *("<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>"),
    *("<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
)
_KEPT = _QWEN_ADDED[16:]
_LLAMA_ADDED = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>"),
    *("<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>"),
    *("<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
    *(f"<|reserved_special_token_{i}|>" for i in range(3, 248)),
)
_QWEN_ENDS, _LLAMA_ENDS = ["<|im_end|>", "<|endoftext|>"], ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"]
_QWEN_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_LLAMA_CHAT = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}"
    "<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
# Layers: as many as fit into 12 GiB with the states of AdamW; the large ones are trained by adapters.
ARCHITECTURES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "Qwen2.5-0.5B": (
        Qwen2Config,
        {**_QWEN, "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 2}
        | {"num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": True},
        False,
    ),
    "Llama-3.2-1B": (
        LlamaConfig,
        {**_LLAMA, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 1, "head_dim": 64}
        | {"tie_word_embeddings": True},
        False,
    ),
    "Llama-3.1-8B": (
        LlamaConfig,
        {**_LLAMA, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 1}
        | {"tie_word_embeddings": False},
        True,
    ),
    "Qwen2.5-7B": (
        Qwen2Config,
        {**_QWEN, "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 1}
        | {"num_attention_heads": 28, "num_key_value_heads": 4, "tie_word_embeddings": False},
        True,
    ),
}
QUESTIONS = ["How many singers do we have?", "What is 17 * 23?", "Which stadium is the largest? Give its näme. 東京"]
RESPONSES, LENGTH, LR = 2, 8, 1e-3


def write_policy(folder: Path, name: str) -> None:
    """Write the model in bfloat16, and a tokenizer of the same number of tokens."""
    kind, sizes, _ = ARCHITECTURES[name]
    tokenizer = write_tokenizer(folder, llama=kind is LlamaConfig)
    ends = tokenizer.convert_tokens_to_ids(_LLAMA_ENDS if kind is LlamaConfig else _QWEN_ENDS)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": ends, "pad_token_id": tokenizer.pad_token_id}
    config = kind(**sizes, **ids, max_position_embeddings=4096, initializer_range=0.02, dtype="bfloat16")
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    model = (LlamaForCausalLM if kind is LlamaConfig else Qwen2ForCausalLM)(config)
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                parameter.normal_(std=0.5)  # Zero at the start: a forgotten bias would not show.
    model.save_pretrained(folder)


def write_tokenizer(folder: Path, llama: bool) -> PreTrainedTokenizerFast:
    """Write and return a byte-level BPE tokenizer: its merges are made up, its sizes and special tokens are not."""
    added, number = (_LLAMA_ADDED, 128_000) if llama else (_QWEN_ADDED, 151_643)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = list(product(alphabet, alphabet))
    triples = product(("".join(pair) for pair in pairs), alphabet)
    merges = [*pairs, *islice(triples, number - len(alphabet) - len(pairs))]
    words = {word: i for i, word in enumerate([*alphabet, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(words, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    # Tags of tools and of code are tokens of Qwen that stay in the text.
    tokenizer.add_tokens([AddedToken(token, special=token.startswith("<|") and token not in _KEPT) for token in added])
    start, end = ("<|begin_of_text|>", "<|eot_id|>") if llama else (None, "<|im_end|>")
    pad = "<|finetune_right_pad_id|>" if llama else "<|endoftext|>"
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=start, eos_token=end, pad_token=pad)
    wrapped.chat_template = _LLAMA_CHAT if llama else _QWEN_CHAT
    wrapped.save_pretrained(folder)
    assert len(wrapped) == number + len(added)
    return wrapped


def prompts(folder: Path) -> list[list[int]]:
    """The questions as a chat, tokenized."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chats = [[{"role": "user", "content": question}] for question in QUESTIONS]
    made = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False) for chat in chats]
    for question, tokens in zip(QUESTIONS, made, strict=True):
        assert question in tokenizer.decode(tokens)
        assert len(set(tokens) & set(tokenizer.all_special_ids)) > 0
    return made


def make_trainer(folder: Path, base: Path, lora: bool, state: Path | None = None) -> Trainer:
    """A trainer with gradient checkpointing, as these models are trained on GPUs."""
    method = MethodConfig(divergence="js", lora={"rank": 8} if lora else None)  # type: ignore[arg-type]
    config = TrainConfig(mini_batches=1, max_tokens=LENGTH)
    hardware = HardwareConfig(gradient_checkpointing=True, token_budget=200)
    start = base if lora else folder
    return Trainer(load_model(start, "bfloat16"), config, hardware, method, state=state, seed=1)


def gap(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference of log-probs."""
    return max(float((one - other).abs().max()) for one, other in zip(ours, theirs, strict=True))


def examples(rows: list[Row], reference: list[Tensor]) -> list[Example]:
    """Rollouts with advantages of both signs, and stored responses."""
    rollouts = [
        Example(row, old=old, sampler=old, advantage=1.0 - 2 * (i % 2))
        for i, (row, old) in enumerate(zip(rows[:4], reference, strict=False))
    ]
    return rollouts + [Example(row, True, reference=old) for row, old in zip(rows[4:], reference[4:], strict=True)]


def train(name: str, place: Path) -> dict[str, float]:
    """Sample, compute the reference, train with pushes, save, and train on."""
    base, found = place / "base", dict[str, float]()
    lora = ARCHITECTURES[name][2]
    asked = prompts(base)
    requests = [
        Request(f"p{i}", sample, tokens, 10 * i + sample, 1.0, 1.0, LENGTH)
        for i, tokens in enumerate(asked)
        for sample in range(RESPONSES)
    ]
    config = EngineConfig(name="transformers", dtype="bfloat16", max_model_len=256)
    engine = make_engine(base, config, HardwareConfig(kv_cache_gib=0.5), distributed=True)
    drawn = engine.generate(requests)
    rows = [
        Row(request.prompt_token_ids, completion.token_ids) for request, completion in zip(requests, drawn, strict=True)
    ]
    sampler = [torch.tensor(completion.logprobs) for completion in drawn]
    start = Canary.of(asked, "bfloat16", engine.max_model_len).of_engine(engine)
    engine.sleep()

    reference = response_logprobs(LogProbs(load_model(base, "bfloat16")), rows, 200)
    found["engine against reference"] = gap(sampler, reference)
    trainer = make_trainer(base, base, lora)
    found["trainer against reference"] = gap(trainer.logprobs(rows), reference)
    sync = WeightSync(trainer, engine, None, asked, start)
    sync.control()
    batch = examples(rows, reference)
    for step in (1, 2):
        found["canary"] = sync.push(step)
        engine.sleep()
        assert trainer.update(batch, LR).grad_norm > 0
    found["moved by training"] = gap(trainer.logprobs(rows), reference)

    trainer.save_policy(place / "policy")
    trainer.save_state(place / "state")
    (place / "rows.json").write_text(json.dumps([(list(row.prompt), list(row.response)) for row in rows]))
    trainer.update(batch, LR)
    kept = {"reference": reference, "continued": trainer.logprobs(rows)}
    save_file({f"{key} {i}": part for key, parts in kept.items() for i, part in enumerate(parts)}, place / "kept")
    return found


def resume(name: str, place: Path) -> dict[str, float]:
    """Take the step after the saved ones again."""
    rows = [Row(*row) for row in json.loads((place / "rows.json").read_text())]
    kept = load_file(place / "kept")
    reference, expected = ([kept[f"{key} {i}"] for i in range(len(rows))] for key in ("reference", "continued"))
    trainer = make_trainer(place / "policy", place / "base", ARCHITECTURES[name][2], place / "state")
    trainer.update(examples(rows, reference), LR)
    return {"resumed against continued": gap(trainer.logprobs(rows), expected)}


def main(name: str, place: str, part: str) -> None:
    """Do one part."""
    if part == "write":
        write_policy(Path(place, "base"), name)
        found = dict[str, float]()
    else:
        start_process_group()
        found = {"train": train, "resume": resume}[part](name, Path(place))
    found["peak GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
