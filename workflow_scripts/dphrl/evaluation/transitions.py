"""From which solve rate of the base to which of a policy questions move, after the last step."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.evaluation.crossed import Floats
from dphrl.evaluation.hypergeometric import right_among
from dphrl.evaluation.keep_explore import bases_of
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.evaluation.study import Study

BINS = (0, 25, 50, 75, 99, 100)
"""Solve rates in per cent: exactly 0, up to 25, 50 and 75, below 100 (named 99), exactly 100."""
_DIGITS = 9


def transitions(study: Study) -> pl.DataFrame:
    """The expected number of prompts by solve rate under the base and under the policy, each from n // 2 samples.

    The base against itself (`base_itself`) has two halves of one draw: what moves there moves by chance. So that the
    others compare with it, theirs too is the expectation over all halves of both draws, by the hypergeometric
    distribution; no sample is left out and no split is drawn. Policies with one sample have no rows.

    Returns:
        The table "transitions": all pairs of `BINS` for each policy.
    """
    rows: list[tuple[object, ...]] = []
    last = study.last_steps()
    bases = bases_of(last)
    for policy in last.policies:
        base, key = bases[policy.key.dataset], policy.key
        if min(base.n, policy.n) < 2:
            continue
        before, after = base.rows["c"].to_numpy(), policy.rows["c"].to_numpy()
        numbers = np.zeros((len(BINS), len(BINS)))
        # Prompts with equal numbers of samples together; in a run of the workflow these are all.
        pairs, place = np.unique(np.stack([base.sizes, policy.sizes]), axis=1, return_inverse=True)
        for number, (n, of_policy) in enumerate(pairs.T.tolist()):
            here, half = place == number, min(n, of_policy) // 2
            if policy is base:
                numbers += against_itself(n, before[here])
            else:
                numbers += _in_bins(n, half)[before[here]].T @ _in_bins(of_policy, half)[after[here]]
        if policy is base:
            key = key._replace(method=BASE_ITSELF)
        # The last bits of the distribution may differ between machines.
        cells = np.ndenumerate(numbers.round(_DIGITS))
        rows += [(*key, BINS[one], BINS[other], number) for (one, other), number in cells]
    return SCHEMAS["transitions"].frame(rows)


def against_itself(n: int, c: NDArray[np.integer]) -> Floats:
    """(bins, bins), expected numbers of prompts by the solve rates of two disjoint draws of n // 2 of their n samples.

    Args:
        n: samples per prompt, 2 or more.
        c: (prompts,) integers, right samples.
    """
    half, found = n // 2, np.zeros((len(BINS), len(BINS)))
    first = np.arange(half + 1)
    bins, draws, others = np.eye(len(BINS))[_bins(half)], right_among(n, half), _in_bins(n - half, half)
    for count, prompts in zip(*np.unique(c, return_counts=True), strict=True):
        left = count - first
        possible = (left >= 0) & (left <= n - half)
        found += prompts * (bins[possible].T * draws[count, possible]) @ others[left[possible]]
    return found


def _in_bins(n: int, k: int) -> Floats:
    """(n + 1, bins), the chance that k of n samples have a solve rate of each bin, by the number of right ones."""
    return right_among(n, k) @ np.eye(len(BINS))[_bins(k)]


def _bins(k: int) -> NDArray[np.int64]:
    """(k + 1,), the place in `BINS` of each number of right samples among k."""
    right = np.arange(k + 1)
    places = -(-4 * right // k)
    places[k] = len(BINS) - 1
    return places
