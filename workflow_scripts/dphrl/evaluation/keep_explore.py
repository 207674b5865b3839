"""What a policy keeps of what the base solves, and what it adds (arXiv 2509.07430, section 6), at every k.

A prompt is solved with the probability that k samples hold a right one, without bias from all n (`pass_at_k`). The
draws of the base and of a policy are independent, so that the chance that both solve a prompt is the product.
A dataset without an evaluation of the base, or with several, is a `ValueError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.evaluation.bootstrap import PromptBootstrap
from dphrl.evaluation.crossed import Floats
from dphrl.evaluation.study import BASE, Policy, PolicyKey, Study

BASE_ITSELF = "base_itself"
"""The method of rows that compare the base with an independent draw from itself."""
PUBLISHED_K = 8


@dataclass(frozen=True)
class Solved:
    """The chances that the base (`base`), both and only the policy (`gained`) solve each prompt; (prompts,) float64."""

    key: PolicyKey
    bootstrap: PromptBootstrap
    base: Floats
    both: Floats
    gained: Floats


def keep_explore(study: Study) -> pl.DataFrame:
    """What each policy keeps of the base, at every k up to n.

    With b and t the pass@k of base and policy on a prompt, the expected numbers of prompts are kept = sum b t, lost =
    sum b (1 - t), gained = sum (1 - b) t, neither = sum (1 - b) (1 - t). Rates with intervals: keep = kept / (kept +
    lost), explore = gained / (gained + neither), and of arXiv 2507.14843 the net discovery rate ndr = gained / (kept +
    gained) and the net support change rate nscr = (gained - lost) / (kept + lost + gained). A rate over no prompts is
    null. gained - lost = sum t - sum b, and kept + gained = sum t.

    The row `base_itself`, for k up to n / 2, has the values that chance alone gives: see `solved_numerators`.
    """
    rows: list[tuple[object, ...]] = []
    for k in study.config.k:
        for one in solved_numerators(study, k):
            # Of numbers that are 0 the last bit may be negative.
            lost, neither = np.maximum(one.base - one.both, 0.0), np.maximum(1.0 - one.base - one.gained, 0.0)
            above = np.stack([one.both, one.gained, one.gained], axis=1)
            below = np.stack([one.base, 1.0 - one.base, one.both + one.gained], axis=1)
            rates = zip(*one.bootstrap.ratio(above, below), strict=True)
            union = (one.base + one.gained)[:, None]
            net = one.bootstrap.ratio((one.gained - lost)[:, None], union, proportion=False)
            numbers = (float(part.sum()) for part in (one.both, lost, one.gained, neither))
            ends = [end for rate in (*rates, [float(end[0]) for end in net]) for end in rate]
            rows.append((*one.key, k, *ends, *numbers))
    found = SCHEMAS["keep_explore"].frame(rows).with_columns(pl.selectors.float().fill_nan(None))
    return found.sort("dataset", pl.col("method") != BASE_ITSELF, *PolicyKey._fields, "k")


def solved_numerators(study: Study, k: int) -> Iterator[Solved]:
    """The base with every other policy of k samples or more, and with itself where it has 2 k.

    For the base itself two disjoint draws of k of its n samples are compared, over all such pairs of draws: with q_m =
    C(n-c, m) / C(n, m) both solve a prompt with probability 1 - 2 q_k + q_2k, only the second with q_k - q_2k.
    """
    bases = bases_of(study)
    for policy in study.policies:
        base = bases[policy.key.dataset]
        if k > min(base.n, policy.n):
            continue
        first = base.pass_at([k])[:, 0]
        if policy is not base:
            solved = policy.pass_at([k])[:, 0]
            yield Solved(policy.key, policy.bootstrap, first, first * solved, (1.0 - first) * solved)
        elif 2 * k <= base.n:
            either = base.pass_at([2 * k])[:, 0]
            both = np.maximum(2.0 * first - either, 0.0)
            yield Solved(policy.key._replace(method=BASE_ITSELF), policy.bootstrap, first, both, either - first)


def bases_of(study: Study) -> dict[str, Policy]:
    """The base on each dataset. Raises `ValueError` where a dataset has none or several."""
    found: dict[str, Policy] = {}
    for policy in study.policies:
        key = policy.key
        if key.method == BASE:
            if key.dataset in found:
                raise ValueError(f"dataset {key.dataset!r} has several evaluations of the base; give one")
            found[key.dataset] = policy
        elif key.dataset not in found:
            raise ValueError(f"dataset {key.dataset!r} has no evaluation of the base policy; evaluate it first")
    return found
