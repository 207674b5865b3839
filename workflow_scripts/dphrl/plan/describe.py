"""The plan as text."""

import json
from pathlib import Path

from dphrl.config.config import Config
from dphrl.plan.memory import GB, Setting, host_bytes, phases
from dphrl.plan.rates import MACHINES, Machine, Rates
from dphrl.plan.shape import ModelShape
from dphrl.plan.sizes import Sizes, sizes
from dphrl.plan.work import Stage, stages, wall_seconds


def shape_of(config: Config, folder: Path) -> ModelShape:
    """The shape of the base model: from its config.json, or of the model that the toy trains."""
    if config.policy.base is not None:
        return ModelShape.from_config(json.loads((folder / config.policy.base / "config.json").read_text()))
    assert config.toy is not None
    model = config.toy.model
    return ModelShape.from_config(
        {
            "model_type": "llama",
            "num_hidden_layers": model.layers,
            "hidden_size": model.width,
            "vocab_size": config.toy.vocabulary,
            "intermediate_size": model.feed_forward,
            "num_attention_heads": model.heads,
        }
    )
