"""How fast GPUs and CPU cores are, as far as it is known before a run."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Machine:
    """A GPU, or a CPU core. Tokens per second fall with the number of a model's parameters.

    Attributes:
        generation: parameters x tokens/s of each engine, with the tail of the longest responses.
        training: floating-point operations per second of the forward and backward passes.
        start: seconds until an engine draws its first token.
        job: seconds of a job without a model, with the start of its process.
        measured: whether these figures were measured in this project (docs/benchmarks.md), or estimated.
    """

    generation: dict[str, float]
    training: float
    start: dict[str, float]
    job: float
    measured: bool


_GPU_START: Final = {"vllm": 90.0, "transformers": 30.0}
MACHINES: Final = {
    "cpu": Machine({"vllm": 4.7e9, "transformers": 7.5e9}, 3e10, {"vllm": 10, "transformers": 4}, 2.5, measured=True),
    "a800": Machine({"vllm": 1.0e13, "transformers": 1e12}, 3.5e13, _GPU_START, 5, measured=False),
    "h100": Machine({"vllm": 1.8e13, "transformers": 2e12}, 1.1e14, _GPU_START, 5, measured=False),
}
