"""The embedded default: a small world of databases, questions and answers, and a base model trained from scratch."""

from dphrl.toy.base import train_base
from dphrl.toy.world import build_world

__all__ = ["build_world", "train_base"]
