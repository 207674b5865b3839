"""Of a budget of k samples, how many to draw from the base and how many from a tuned model: coverage without training.

With b and t the pass@k of both on a question, k_b samples of the base and k_t of the tuned model solve it with
probability 1 - (1 - b(k_b)) (1 - t(k_t)), without bias. The best split is chosen on half of the questions and judged on
the other half, both ways round: a split that is chosen and judged on the same questions looks better than it is.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from dphrl.evaluation.crossed import Floats
from dphrl.evaluation.study import Policy
from dphrl.evaluation.verdict import paired

SCHEMA = {
    "method": pl.String(),
    "k": pl.Int32(),
    "base_alone": pl.Float64(),
    "tuned_alone": pl.Float64(),
    "best": pl.Float64(),
    "from_base": pl.Int32(),
    "from_base_other_half": pl.Int32(),
    "gain": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
}
# The last bits of a mean must not choose the split.
_TIE = 1e-12


def splits(base: Policy, tuned: Policy, k: int) -> Floats:
    """(questions, k + 1), the chance that a question is solved with 0 .. k samples of the base, the rest tuned."""
    draws = list(range(1, k + 1))
    missed_base, missed_tuned = (
        np.hstack([np.ones((policy.rows.height, 1)), 1.0 - policy.pass_at(draws)]) for policy in (base, tuned)
    )
    return np.asarray(1.0 - missed_base * missed_tuned[:, ::-1])


def portfolio(base: Policy, tuned: Policy, budgets: Sequence[int], seed: int) -> pl.DataFrame:
    """A row for each budget: coverage of the best split, and its gain over all k samples from the tuned model.

    Args:
        budgets: values of k, each at most the samples of every question.
        seed: of the halves of the questions.

    Returns:
        The columns of `SCHEMA`. `base_alone` and `tuned_alone` are pass@k of each model. `best` is pass@k of the split
        chosen on the other half of the questions. `from_base` counts the samples of the base in the split chosen on the
        first half; `from_base_other_half`, on the other half. `gain` is best - tuned_alone with its 95 % interval over
        questions, or groups of them. No rows for fewer than four questions.
    """
    rows = []
    number = base.rows.height
    first = np.zeros(number, dtype=bool)
    first[np.random.default_rng(seed).permutation(number)[: number // 2]] = True
    for k in budgets if number >= 4 else ():
        solved = splits(base, tuned, k)
        chosen = [_best(solved[half]) for half in (first, ~first)]
        judged = np.where(first, solved[:, chosen[1]], solved[:, chosen[0]])
        gain = paired(judged - solved[:, 0], clusters=base.clusters)
        alone = float(solved[:, k].mean()), float(solved[:, 0].mean())
        rows.append((tuned.key.method, k, *alone, float(judged.mean()), *chosen, gain.value, *gain.wide))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _best(solved: Floats) -> int:
    """The split with the highest mean; among equal splits, the fewest samples of the base."""
    means = solved.mean(axis=0)
    return int(np.flatnonzero(means >= means.max() - _TIE)[0])
