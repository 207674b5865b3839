"""The program of each rank in a test: it takes a state from stage to stage, in both precisions.

Arguments: the folder of states, the name of the first (which is made by an update if it is not there), and the ZeRO
stages. A state is named after the one before, the number of ranks and the stage.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from tiny_models import tiny_model
from tiny_training import hardware, train_config
from two_ranks import VOCABULARY, share

from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.collectives import start_process_group, world_size
from dphrl.training.trainer import Trainer


def main(folder: str, name: str, *stages: str) -> None:
    """Load and save."""
    start_process_group()
    for dtype in ("float32", "bfloat16"):
        state = Path(folder, dtype, name)
        for stage in stages:
            # The weights are those that the state belongs to in the first trainer alone, which does not matter here.
            model = tiny_model(VOCABULARY).to(getattr(torch, dtype))
            config, machine = train_config(dtype=dtype), hardware(ranks=world_size(), zero_stage=int(stage))
            trainer = Trainer(
                model, config, machine, MethodConfig(divergence="js"), state=state if state.exists() else None
            )
            if not state.exists():
                trainer.update(share("even"), 1e-3)
            state = state.with_name(f"{state.name}-{world_size()}.{stage}")
            trainer.save_state(state)


if __name__ == "__main__":
    main(*sys.argv[1:])
