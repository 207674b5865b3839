"""What a float32 head would change in bfloat16, as a table: python dev/benchmarks/head_precision.py results/demo

Now the logits are rounded to bfloat16 before the softmax; a float32 head would not round them. The base policy of a run
draws responses; then its weights are moved at random, as by an update. Errors are root mean squares in nats, against
the same weights in float32: of log-probs, and of their change by the movement, which is the logarithm of the ratio.
"""

import argparse
import copy
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import linear
from transformers import PreTrainedModel

from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs

PROMPT, RESPONSE = 8, 48


@torch.no_grad()
def draw(model: PreTrainedModel, responses: int) -> list[Row]:
    """Responses to random prompts."""
    prompts = torch.randint(3, model.config.vocab_size, (responses, PROMPT))
    lengths = {"max_new_tokens": RESPONSE, "min_new_tokens": RESPONSE}
    drawn = model.generate(prompts, do_sample=True, top_k=0, top_p=1.0, **lengths).tolist()
    return [Row(tokens[:PROMPT], tokens[PROMPT:]) for tokens in drawn]


@torch.no_grad()
def moved(model: PreTrainedModel, scale: float) -> PreTrainedModel:
    """A copy with noise of so many standard deviations of each tensor."""
    other = copy.deepcopy(model)
    for parameter in other.parameters():
        parameter += (scale * parameter.float().std() * torch.randn(parameter.shape)).to(parameter.dtype)
    return other


def logprobs(model: PreTrainedModel, rows: list[Row], *, float32_head: bool = False) -> Tensor:
    """Log-probs of all response tokens (tokens,), float64."""
    model = copy.deepcopy(model)
    if float32_head:
        head = model.get_output_embeddings()
        head.forward = lambda hidden: linear(hidden.float(), head.weight.float())
    return torch.cat(response_logprobs(LogProbs(model), rows, 1 << 20)).double()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--responses", type=int, default=64)
    options = parser.parse_args()
    torch.manual_seed(0)
    base = load_model(options.run / "policies/base", "bfloat16")
    rows = draw(copy.deepcopy(base).float(), options.responses)
    before = logprobs(copy.deepcopy(base).float(), rows)
    print(
        "| movement | head | error of log-probs | change | error of the change |\n| ---: | --- | ---: | ---: | ---: |"
    )
    for scale in (0.001, 0.003, 0.01):
        after_model = moved(base, scale)
        change = logprobs(copy.deepcopy(after_model).float(), rows) - before
        for name, exact in (("bfloat16", False), ("float32", True)):
            ours = logprobs(base, rows, float32_head=exact)
            ours_changed = logprobs(after_model, rows, float32_head=exact) - ours
            values = (float(x.square().mean().sqrt()) for x in (ours - before, change, ours_changed - change))
            print(f"| {scale:g} | {name} | {' | '.join(f'{value:.4f}' for value in values)} |")


if __name__ == "__main__":
    main()
