"""Training: the schedule, the step, DeepSpeed, the verified weight push, and segments that can be restarted."""

from dphrl.training.canary import StaleWeightsError, WeightSync
from dphrl.training.job import SegmentJob, online_prompts, run_job
from dphrl.training.launch import RankError, train_segment
from dphrl.training.loss import Example, Objective
from dphrl.training.ranks import start_process_group
from dphrl.training.rollouts import Collector, Group, Judged, OnlinePrompt, Score
from dphrl.training.schedule import draw, learning_rate
from dphrl.training.segment import Segment
from dphrl.training.shared_engine import SharedEngine
from dphrl.training.trainer import Trainer, Update

__all__ = [
    "Collector",
    "Example",
    "Group",
    "Judged",
    "Objective",
    "OnlinePrompt",
    "RankError",
    "Score",
    "Segment",
    "SegmentJob",
    "SharedEngine",
    "StaleWeightsError",
    "Trainer",
    "Update",
    "WeightSync",
    "draw",
    "learning_rate",
    "online_prompts",
    "run_job",
    "start_process_group",
    "train_segment",
]
