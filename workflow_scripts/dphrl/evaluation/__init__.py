"""What a policy can do: pass@k, styles, diversity, keep and explore, with intervals. Tables in, tables out."""

from dphrl.evaluation.bootstrap import PromptBootstrap, wilson
from dphrl.evaluation.estimator import pass_at_k
from dphrl.evaluation.samples import evaluate
from dphrl.evaluation.tables import SECOND_DRAW, headline, keep_explore, passk, styles

__all__ = [
    "SECOND_DRAW",
    "PromptBootstrap",
    "evaluate",
    "headline",
    "keep_explore",
    "pass_at_k",
    "passk",
    "styles",
    "wilson",
]
