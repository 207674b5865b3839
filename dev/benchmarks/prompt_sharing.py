"""Forward and backward with and without prompt sharing, as a Markdown table: python dev/benchmarks/prompt_sharing.py

The model is a random Llama (4 layers of width 128, vocabulary 512, float32). Times are the minimum of several passes on
one thread, or on the GPU with --device cuda. The limit is the ratio of token counts: the speed-up if all time were
spent on the layers' tokens.
"""

import argparse
import random
import time
from collections.abc import Sequence

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from dphrl.model.batch import PromptSharing, Row, collate
from dphrl.model.logprobs import LogProbs

VOCABULARY = 512
SETTINGS: tuple[PromptSharing, PromptSharing] = ("off", "on")
# Prompts, responses per prompt, mean prompt and response length.
SHAPES = {
    "demo, D_exp": (16, 16, 40, 35),
    "demo, D_pef": (32, 1, 40, 35),
    "10:1": (1, 16, 640, 64),
    "8:1": (1, 16, 512, 64),
    "3:1": (4, 16, 192, 64),
    "1:1": (4, 16, 64, 64),
    "1:3": (2, 16, 64, 192),
    "1:8": (1, 16, 64, 512),
}


def rows_of(prompts: int, count: int, prompt_length: int, response_length: int) -> list[Row]:
    """Rows of random tokens; lengths vary by up to a quarter."""
    chance = random.Random(0)

    def tokens(length: int) -> list[int]:
        return chance.choices(range(VOCABULARY), k=chance.randint(3 * length // 4, 5 * length // 4))

    groups = [(tokens(prompt_length), [tokens(response_length) for _ in range(count)]) for _ in range(prompts)]
    return [Row(prompt, response) for prompt, responses in groups for response in responses]


def one_pass(module: LogProbs, rows: Sequence[Row], sharing: PromptSharing, budget: int) -> float:
    """Seconds of one forward and backward pass over all rows; on a CPU the thread's CPU time."""
    device = next(module.parameters()).device
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    module.zero_grad()
    start = clock()
    for part in module.plan(rows, budget, sharing):
        logprobs, _ = module(collate([rows[i] for i in part.rows], device, part.shared, part.form))
        logprobs.mean().backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - start


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--passes", type=int, default=5, help="passes, of which the fastest counts (default 5)")
parser.add_argument("--budget", type=int, default=4096, help="tokens per micro-batch (default 4096)")
parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=SHAPES, help="shapes to measure (default all)")
arguments = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=128,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=4096,
)
module = LogProbs(LlamaForCausalLM(config)).to(arguments.device)

print("| shape | rows | padded, s | shared, s | faster by | limit | auto shares |")
print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
for name in arguments.shapes:
    rows = rows_of(*SHAPES[name])
    # Both settings take turns, so that other work on the machine slows both; the first pass of each warms up.
    times = [[one_pass(module, rows, s, arguments.budget) for s in SETTINGS] for _ in range(arguments.passes + 1)]
    padded, shared = (min(column) for column in zip(*times[1:], strict=True))
    prompts = {tuple(row.prompt) for row in rows}
    limit = sum(row.length for row in rows) / sum(map(len, [*prompts, *(row.response for row in rows)]))
    chosen = "yes" if module.plan(rows, arguments.budget, "auto")[0].shared else "no"
    print(
        f"| {name} | {len(rows)} | {padded:.3f} | {shared:.3f} | {padded / shared:.2f} | {limit:.2f} | {chosen} |",
        flush=True,
    )
