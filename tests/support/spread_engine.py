"""The program of each rank in a test: it samples from one vLLM engine, which all ranks share by tensor parallelism.

Arguments: the folder of the policy, the output folder, and the seconds after which a rank gives up. The ranks have
different numbers of requests, so that one rank must keep generating for the other.
"""

from __future__ import annotations

import faulthandler
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tiny_training import ENGINE, HARDWARE
from torch import Tensor

from dphrl.policy.collectives import rank, start_process_group, world_size
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import load_model
from dphrl.policy.requests import Request
from dphrl.training.job import SharedEngine

ROUNDS = 3
TEXT = [3 + i * i % 50 for i in range(60)]


def requests_of(number: int, round_: int) -> list[Request]:
    """The requests of a rank in a round: rank 0 has the most, rank 1 has some in the first round only."""
    many = {0: 4 - round_, 1: 3 if round_ == 0 else 0}[number]
    prompt = [3 + (number * 7 + i) % 40 for i in range(5 + round_)]
    return [Request("p", i, prompt, 1000 * number + 100 * round_ + i, 1.0, 0.9, 8 + i) for i in range(many)]


def main(policy: str, folder: str, seconds: str) -> None:
    """Sample before and after a push of other weights."""
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    start_process_group()
    ranks = world_size()
    hardware = HARDWARE.model_copy(update={"tensor_parallel": ranks})
    part = make_engine(Path(policy), ENGINE.model_copy(update={"name": "vllm"}), hardware, distributed=True)
    engine = SharedEngine(part, ranks) if ranks > 1 else part
    model = load_model(Path(policy), "float32")
    results: dict[str, object] = {}
    for scale in (1.0, 0.7):
        weights: list[tuple[str, Tensor]] = [(name, scale * p.detach()) for name, p in model.named_parameters()]
        engine.wake(weights)
        results[f"text {scale}"] = engine.text_logprobs(TEXT).tolist()
        # A single rank has the requests of both.
        for number in range(2) if ranks == 1 else [rank()]:
            rounds = [requests_of(number, round_) for round_ in range(ROUNDS)]
            drawn = [engine.generate(requests) for requests in rounds if requests]
            results[f"rank {number}, {scale}"] = [asdict(completion) for group in drawn for completion in group]
        engine.sleep()
    Path(folder, f"{ranks}-{rank()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
