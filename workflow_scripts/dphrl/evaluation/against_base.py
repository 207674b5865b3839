"""A policy against the base: questions kept, lost and gained, the k where coverage crosses, changes of solve rates.

A prompt is solved with the probability that k samples hold a right one, without bias from all n (`pass_at_k`). The
draws of the base and of a policy are independent, so that the chance that both solve a prompt is the product
(arXiv 2509.07430, section 6). A dataset without an evaluation of the base, or with several, is a `ValueError`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.evaluation.estimator import right_among
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.names import BASE, BASE_ITSELF
from dphrl.evaluation.study import Policy, PolicyKey, Study
from dphrl.store.catalogue import SCHEMAS


@dataclass(frozen=True)
class Solved:
    """The chances that the base (`base`), both and only the policy (`gained`) solve each prompt; (prompts,) float64."""

    key: PolicyKey
    policy: Policy
    base: Floats
    both: Floats
    gained: Floats


def keep_explore(study: Study) -> pl.DataFrame:
    """Rates of prompts that each policy keeps, loses and gains against the base, at every k up to n.

    With b and t the pass@k of base and policy on a prompt, the expected numbers of prompts are kept = sum b t, lost =
    sum b (1 - t), gained = sum (1 - b) t, neither = sum (1 - b) (1 - t). Rates with intervals: keep = kept / (kept +
    lost), explore = gained / (gained + neither). From arXiv 2507.14843: the net discovery rate ndr = gained / (kept +
    gained) and the net support change rate nscr = (gained - lost) / (kept + lost + gained). A rate over no prompts is
    null. gained - lost = sum t - sum b, and kept + gained = sum t.

    The row `base_itself`, for k up to n / 2, shows the values that chance alone gives: see `solved_numerators`.
    """
    rows: list[tuple[object, ...]] = []
    for solved_by_k in _by_policy(study, sorted(study.config.k)):
        if solved_by_k:
            rows += _rates(solved_by_k)
    return SCHEMAS["keep_explore"].frame(rows).with_columns(pl.selectors.float().fill_nan(None))


def solved_numerators(study: Study, k: int) -> Iterator[Solved]:
    """Compare the base with every other policy of k samples or more, and with itself if it drew 2 k samples.

    The base itself is compared over all pairs of disjoint draws of k of its n samples. With q_m = C(n-c, m) / C(n, m),
    both draws solve a prompt with probability 1 - 2 q_k + q_2k, only the second with q_k - q_2k.
    """
    for solved_by_k in _by_policy(study, [k]):
        yield from solved_by_k.values()


def bases_of(study: Study) -> dict[str, Policy]:
    """The base on each dataset. Raises `ValueError` for a dataset without evaluation of the base, or with several."""
    bases: dict[str, Policy] = {}
    for policy in study.policies:
        key = policy.key
        if key.method == BASE:
            if key.dataset in bases:
                raise ValueError(f"dataset {key.dataset!r} has several evaluations of the base; give one")
            bases[key.dataset] = policy
        elif key.dataset not in bases:
            raise ValueError(f"dataset {key.dataset!r} has no evaluation of the base policy; evaluate it first")
    return bases


def _by_policy(study: Study, ks: Sequence[int]) -> Iterator[dict[int, Solved]]:
    """For each policy, the members of `ks` at which it compares with the base."""
    bases = bases_of(study)
    for policy in study.policies:
        base, key = bases[policy.key.dataset], policy.key
        possible = [k for k in ks if k <= (base.n // 2 if policy is base else min(base.n, policy.n))]
        first, other = base.pass_at(possible), policy.pass_at([2 * k for k in possible] if policy is base else possible)
        if policy is base:
            key, both, gained = key._replace(method=BASE_ITSELF), 2.0 * first - other, other - first
        else:
            both, gained = first * other, (1.0 - first) * other
        # A chance of 0 may have a negative last bit.
        parts = zip(possible, first.T, np.maximum(both, 0.0).T, gained.T, strict=True)
        yield {k: Solved(key, policy, *arrays) for k, *arrays in parts}


def _rates(solved_by_k: Mapping[int, Solved]) -> Iterator[tuple[object, ...]]:
    """The rows of a policy, one for each k."""
    solved = next(iter(solved_by_k.values()))
    base, both, gained = (
        np.stack([getattr(part, name) for part in solved_by_k.values()], axis=1) for name in ("base", "both", "gained")
    )
    lost, neither = np.maximum(base - both, 0.0), np.maximum(1.0 - base - gained, 0.0)
    above = np.hstack([both, gained, gained])
    below = np.hstack([both + lost, gained + neither, both + gained])
    rates = np.stack(solved.policy.ratio(above, below)).reshape(3, 3, -1)
    net = np.stack(solved.policy.ratio(gained - lost, both + lost + gained, proportion=False))
    ends = np.concatenate([rates.swapaxes(0, 1), net[None]]).reshape(12, -1)
    numbers = (part.sum(axis=0) for part in (both, lost, gained, neither))
    return ((*solved.key, *row) for row in zip(solved_by_k, *ends, *numbers, strict=True))


# Above this k the curves are compared at steps of about 5 %.
_EVERY_K = 64
_STEP = 1.05
_TOLERANCE = 1e-9


def crossing(study: Study) -> pl.DataFrame:
    """The smallest k at which pass@k of a policy is below the base's; null if there is none up to `up_to`.

    `low`: first k whose interval of the difference contains negative values. `high`: first k whose interval is
    entirely negative. A null `high`: the policy may not cross up to `up_to`. A null `low`: it does not cross. k = 1:
    the policy is below from the start.

    Returns:
        The table "crossing".
    """
    rows: list[tuple[object, ...]] = []
    last = study.last_steps()
    bases = bases_of(last)
    for policy in last.policies:
        base = bases[policy.key.dataset]
        if policy is not base:
            k = compared_k(min(base.n, policy.n))
            intervals = policy.ratio(policy.pass_at(k) - base.pass_at(k), proportion=False)
            rows.append((*policy.key, *(_first_below(curve, k) for curve in intervals), k[-1]))
    return SCHEMAS["crossing"].frame(rows)


def compared_k(most: int) -> list[int]:
    """The k from 1 to `most` at which curves are compared: all up to 64, then steps of about 5 %."""
    steps = int(np.ceil(np.log(max(most / _EVERY_K, 1.0)) / np.log(_STEP))) + 1
    above = np.geomspace(_EVERY_K, most, steps).round().astype(int).tolist() if most > _EVERY_K else []
    return sorted({*range(1, min(most, _EVERY_K) + 1), *above})


def _first_below(curve: Floats, k: list[int]) -> int | None:
    below = np.flatnonzero(curve < -_TOLERANCE)
    return k[below[0]] if below.size else None


BINS = (0, 25, 50, 75, 99, 100)
"""Solve rates in per cent: exactly 0, up to 25, 50 and 75, below 100 (named 99), exactly 100."""
_DIGITS = 9


def transitions(study: Study) -> pl.DataFrame:
    """The expected number of prompts by solve rate under the base and under the policy, each from n // 2 samples.

    `base_itself` compares two halves of one draw of the base: prompts that move there move by chance. So that the
    other policies compare with it, their numbers are expectations over all halves of both draws. These expectations
    are hypergeometric: no sample is left out and no split is drawn. Policies with one sample have no rows.

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
        # Prompts with equal numbers of samples are added together. In a run of the workflow all numbers are equal.
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
        rows += [(*key, BINS[base_bin], BINS[policy_bin], number) for (base_bin, policy_bin), number in cells]
    return SCHEMAS["transitions"].frame(rows)


def against_itself(n: int, c: NDArray[np.integer]) -> Floats:
    """(bins, bins), expected numbers of prompts by the solve rates of two disjoint draws of n // 2 of their n samples.

    Args:
        n: samples per prompt, 2 or more.
        c: (prompts,) integers, right samples.
    """
    half, numbers = n // 2, np.zeros((len(BINS), len(BINS)))
    first = np.arange(half + 1)
    bins, draws, others = np.eye(len(BINS))[_bins(half)], right_among(n, half), _in_bins(n - half, half)
    for count, prompts in zip(*np.unique(c, return_counts=True), strict=True):
        left = count - first
        possible = (left >= 0) & (left <= n - half)
        numbers += prompts * (bins[possible].T * draws[count, possible]) @ others[left[possible]]
    return numbers


def _in_bins(n: int, k: int) -> Floats:
    """(n + 1, bins), the chance that k of n samples have a solve rate of each bin, by the number of right ones."""
    return right_among(n, k) @ np.eye(len(BINS))[_bins(k)]


def _bins(k: int) -> NDArray[np.int64]:
    """(k + 1,), the place in `BINS` of each number of right samples among k."""
    right = np.arange(k + 1)
    places = -(-4 * right // k)
    places[k] = len(BINS) - 1
    return places
