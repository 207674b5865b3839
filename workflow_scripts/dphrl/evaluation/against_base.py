"""A policy against the base: questions kept, lost and gained, and where a loss sits.

A prompt is solved with the probability that k samples hold a right one, without bias from all n (`pass_at_k`). The
draws of the base and of a policy are independent, so that the chance that both solve a prompt is the product
(arXiv 2509.07430, section 6). A dataset without one evaluation of the base is a `ValueError`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from dphrl.evaluation.estimator import pass_at_k, right_among
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.names import BASE, BASE_ITSELF, STRATA
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS


def keep_explore(study: Study) -> pl.DataFrame:
    """Rates of prompts that each policy keeps, loses and gains against the base, at every k up to n.

    With b and t the pass@k of base and policy on a prompt, the expected numbers of prompts are kept = sum b t, lost =
    sum b (1 - t), gained = sum (1 - b) t, neither = sum (1 - b) (1 - t). Rates with intervals: keep = kept / (kept +
    lost), explore = gained / (gained + neither). ndr = gained / (kept + gained), the net discovery rate of
    arXiv 2507.14843. A rate over no prompts is null. gained - lost = sum t - sum b, and kept + gained = sum t.

    The row `base_itself`, for k up to n / 2, shows the values that chance alone gives: see `solved_at`.
    """
    rows: list[tuple[object, ...]] = []
    bases = bases_of(study)
    for policy in study.policies:
        base_policy = bases[policy.key.dataset]
        itself = policy is base_policy
        most = base_policy.n // 2 if itself else min(base_policy.n, policy.n)
        ks = [k for k in sorted(study.config.k) if k <= most]
        if not ks:
            continue
        base, both, gained = solved_at(base_policy, policy, ks)
        lost, neither = np.maximum(base - both, 0.0), np.maximum(1.0 - base - gained, 0.0)
        above = np.hstack([both, gained, gained])
        below = np.hstack([both + lost, gained + neither, both + gained])
        intervals = np.stack(policy.ratio(above, below)).reshape(3, 3, -1).swapaxes(0, 1).reshape(9, -1)
        numbers = (part.sum(axis=0) for part in (both, lost, gained, neither))
        key = policy.key._replace(method=BASE_ITSELF) if itself else policy.key
        rows += ((*key, *row) for row in zip(ks, *intervals, *numbers, strict=True))
    return SCHEMAS["keep_explore"].frame(rows).with_columns(pl.selectors.float().fill_nan(None))


def bases_of(study: Study) -> dict[str, Policy]:
    """The base on each dataset. Raises `ValueError` for a dataset without one evaluation of the base."""
    bases: dict[str, Policy] = {}
    for dataset, policies in study.by_dataset().items():
        number = sum(policy.key.method == BASE for policy in policies)
        if number != 1:
            raise ValueError(f"dataset {dataset!r} has {number} evaluations of the base; give one")
        bases[dataset] = policies[0]
    return bases


def solved_at(base: Policy, policy: Policy, ks: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Compare the base with a policy at each k, up to the samples of both.

    The base is compared with itself, for k up to n / 2, over all pairs of disjoint draws of k of its n samples. With
    q_m = C(n-c, m) / C(n, m), both draws solve a prompt with probability 1 - 2 q_k + q_2k, only the second with
    q_k - q_2k.

    Returns:
        The chances that the base, both, and only the policy solve a prompt; each (prompts, ks).
    """
    first = base.pass_at(ks)
    if policy is base:
        twice = base.pass_at([2 * k for k in ks])
        # A chance of 0 may have a negative last bit.
        return first, np.maximum(2.0 * first - twice, 0.0), twice - first
    other = policy.pass_at(ks)
    return first, first * other, (1.0 - first) * other


def strata(base: Policy, k: int) -> Mapping[str, tuple[Floats, Floats]]:
    """Questions by how often the base solves them, and pass@k of another draw of the base.

    Questions chosen by the samples that also measure the base show a loss where there is none: those that it solved by
    luck are solved less often by any draw after it. So one half of the base's samples decides the stratum of a
    question, and the other half is the base's pass@k. All ways to divide the samples count alike. That is exact from n
    and c, and nothing is sampled again: of c right samples, a are in the first half with the hypergeometric chance.

    Args:
        k: at most half of the samples of each question.

    Returns:
        Of each stratum (questions,): the chance to be in it, and to be in it and solved by k samples of the other half.
    """
    sizes, right, place = base.pairs
    chances = np.zeros((2, len(STRATA), len(sizes)))
    for pair, (n, c) in enumerate(zip(sizes.tolist(), right.tolist(), strict=True)):
        half = n // 2
        first = np.arange(max(0, c - (n - half)), min(c, half) + 1)
        chance = right_among(n, half)[c, first]
        stratum = np.sum([first > 0, 8 * first > half, 2 * first > half], axis=0)
        solved = chance * pass_at_k(n - half, c - first, k)
        chances[:, :, pair] = [np.bincount(stratum, weights, len(STRATA)) for weights in (chance, solved)]
    return {name: (inside[place], solved[place]) for name, inside, solved in zip(STRATA, *chances, strict=True)}
