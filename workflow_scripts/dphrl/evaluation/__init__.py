"""What a policy can do, and how policies differ: tables in, tables out, with intervals."""

from dphrl.evaluation.bootstrap import PromptBootstrap, wilson
from dphrl.evaluation.claims import CLAIMS, Claim, ClaimRules, claims
from dphrl.evaluation.classes import class_counts, classes, entropy, skeleton
from dphrl.evaluation.comparisons import comparisons, holm, t_interval
from dphrl.evaluation.estimator import maj_at_k, pass_at_k, pass_hat_k
from dphrl.evaluation.forgetting import SECOND_DRAW, check_keep_explore, forgetting, keep_explore
from dphrl.evaluation.parts import evaluate_parts
from dphrl.evaluation.samples import evaluate
from dphrl.evaluation.tables import consistency, diversity, headline, passk, per_level, style_counts, styles
from dphrl.evaluation.tabulate import tabulate

__all__ = [
    "CLAIMS",
    "SECOND_DRAW",
    "Claim",
    "ClaimRules",
    "PromptBootstrap",
    "check_keep_explore",
    "claims",
    "class_counts",
    "classes",
    "comparisons",
    "consistency",
    "diversity",
    "entropy",
    "evaluate",
    "evaluate_parts",
    "forgetting",
    "headline",
    "holm",
    "keep_explore",
    "maj_at_k",
    "pass_at_k",
    "pass_hat_k",
    "passk",
    "per_level",
    "skeleton",
    "style_counts",
    "styles",
    "t_interval",
    "tabulate",
    "wilson",
]
