"""From a response to a verdict: SQL by execution, mathematics by value, in worker processes that can be killed.

Nothing heavy is imported here: every worker process imports this package.
"""

from dphrl.scoring.factory import CustomScorer, register
from dphrl.scoring.math.scorer import MathScorer
from dphrl.scoring.sql.scorer import SqlScorer
from dphrl.scoring.verdict import Verdict

__all__ = ["CustomScorer", "MathScorer", "SqlScorer", "Verdict", "register"]
