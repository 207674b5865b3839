"""The program of a test: with `engine.batch_invariant` a response of vLLM does not depend on others.

The engine is that of a sampling job, whose cache on a GPU is what the card leaves.
Argument: a folder for the policy. On a GPU in bfloat16; on a CPU in float32, where responses never depend on others.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from engine_suite import ALONE_IN_FLOAT32, Policy
from tiny_models import HEADS_OF_128


def main(folder: str) -> None:
    """Check."""
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    policy = Policy.write(Path(folder), dtype=dtype, **HEADS_OF_128)
    engine = policy.engine("vllm", alone=True, batch_invariant=True)
    for check in ALONE_IN_FLOAT32:
        check(policy, engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # an engine takes seconds to end
