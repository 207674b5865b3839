"""What each rank of a test does: it draws from one engine that is spread over all ranks, or with one rank from its own.

Arguments: the folder of the policy, the one for what each rank writes, and the seconds after which a rank gives up.
Ranks ask unequally often, so that one draws along for another.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tiny_training import ENGINE
from torch import Tensor

from dphrl.model.logprobs import load_model
from dphrl.rollout.engine import make_engine
from dphrl.rollout.requests import Request
from dphrl.training.collectives import rank, start_process_group, world_size
from dphrl.training.shared_engine import SharedEngine

ROUNDS = 3
TEXT = [3 + i * i % 50 for i in range(60)]


def asked(number: int, round_: int) -> list[Request]:
    """What a rank asks for in a round, by its seed: rank 0 always the most, rank 1 in the first round alone."""
    many = {0: 4 - round_, 1: 3 if round_ == 0 else 0}[number]
    prompt = [3 + (number * 7 + i) % 40 for i in range(5 + round_)]
    return [Request("p", i, prompt, 1000 * number + 100 * round_ + i, 1.0, 0.9, 8 + i) for i in range(many)]


def main(policy: str, folder: str, seconds: str) -> None:
    """Draw before and after a push of other weights."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    start_process_group()
    ranks = world_size()
    config = ENGINE.model_copy(update={"name": "vllm", "tensor_parallel": ranks})
    part = make_engine(Path(policy), config, distributed=True)
    engine = SharedEngine(part, ranks) if ranks > 1 else part
    model = load_model(Path(policy), "float32")
    told = {}
    for scale in (1.0, 0.7):
        weights: list[tuple[str, Tensor]] = [(name, scale * p.detach()) for name, p in model.named_parameters()]
        engine.wake(weights)
        told[f"text {scale}"] = engine.text_logprobs(TEXT).tolist()
        # One rank asks for all that two would.
        for number in range(2) if ranks == 1 else [rank()]:
            rounds = [asked(number, round_) for round_ in range(ROUNDS)]
            drawn = [engine.generate(requests) for requests in rounds if requests]
            told[f"rank {number}, {scale}"] = [asdict(completion) for group in drawn for completion in group]
        engine.sleep()
    Path(folder, f"{ranks}-{rank()}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
