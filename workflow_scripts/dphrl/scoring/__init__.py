"""From a response to a verdict: SQL by execution, mathematics by value, in worker processes that can be killed.

Nothing heavy is imported here, because every worker process imports this package.
"""

from dphrl.scoring.custom import CustomScorer, register
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.maths import MathScorer
from dphrl.scoring.protocol import Scorer
from dphrl.scoring.sql import SqlScorer
from dphrl.scoring.tables import audit_gold, score_rollouts, verdict_frame
from dphrl.scoring.verdict import EMPTY_ANSWER, VERDICTS, InfrastructureError, Verdict

__all__ = [
    "EMPTY_ANSWER",
    "VERDICTS",
    "CustomScorer",
    "InfrastructureError",
    "MathScorer",
    "Scorer",
    "SqlScorer",
    "Verdict",
    "audit_gold",
    "make_scorer",
    "register",
    "score_rollouts",
    "verdict_frame",
]
