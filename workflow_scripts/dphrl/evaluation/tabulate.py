"""All tables over all policies."""

from collections.abc import Sequence

import polars as pl

from dphrl.config.blocks.evaluate import BootstrapConfig
from dphrl.evaluation.claims import ClaimRules, claims
from dphrl.evaluation.comparisons import AGAINST, comparisons
from dphrl.evaluation.keep_explore import forgetting, keep_explore
from dphrl.evaluation.tables import consistency, diversity, headline, passk, per_level, style_counts, styles


def tabulate(
    evaluations: pl.DataFrame,
    k: Sequence[int],
    bootstrap: BootstrapConfig,
    seed: int,
    against: Sequence[str] = AGAINST,
    rules: ClaimRules | None = None,
) -> dict[str, pl.DataFrame]:
    """The tables by name; each is described where it is made, arguments and errors as there.

    `headline_levels` and `keep_explore_levels` are those tables for the prompts of each level alone.
    """
    compared = comparisons(evaluations, k, bootstrap, seed, against)
    return {
        "headline": headline(evaluations, k, bootstrap, seed),
        "headline_levels": per_level(evaluations, lambda rows: headline(rows, k, bootstrap, seed)),
        "passk": passk(evaluations, k, bootstrap, seed),
        "consistency": consistency(evaluations, k, bootstrap, seed),
        "styles": styles(evaluations, bootstrap, seed),
        "style_counts": style_counts(evaluations, bootstrap, seed),
        "diversity": diversity(evaluations, bootstrap, seed),
        "keep_explore": keep_explore(evaluations, bootstrap, seed),
        "keep_explore_levels": per_level(evaluations, lambda rows: keep_explore(rows, bootstrap, seed)),
        "forgetting": forgetting(evaluations, bootstrap, seed),
        "comparisons": compared,
        "claims": claims(compared, rules or ClaimRules()),
    }
