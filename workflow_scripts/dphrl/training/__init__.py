"""Training: the schedule, the step, DeepSpeed, the verified weight push, and segments that can be restarted."""

from dphrl.training.canary import StaleWeightsError, WeightSync
from dphrl.training.run import SegmentConfig, online_prompts, train_segment
from dphrl.training.schedule import draw, learning_rate
from dphrl.training.segment import Judged, OnlinePrompt, Score, Segment
from dphrl.training.trainer import Example, Trainer, start_process_group

__all__ = [
    "Example",
    "Judged",
    "OnlinePrompt",
    "Score",
    "Segment",
    "SegmentConfig",
    "StaleWeightsError",
    "Trainer",
    "WeightSync",
    "draw",
    "learning_rate",
    "online_prompts",
    "start_process_group",
    "train_segment",
]
