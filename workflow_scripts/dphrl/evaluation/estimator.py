"""Estimators from n samples of a prompt: pass@k, maj@n; classes: counts, number in m."""

from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln

from dphrl.evaluation.interval import Floats

NO_CLASS = -1


@overload
def pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> NDArray[np.float64] | float: ...
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> NDArray[np.float64] | float:
    """Probability that k of n samples drawn without replacement hold a correct one: 1 - C(n-c, k) / C(n, k).

    For n independent samples it is exactly unbiased for 1 - (1 - p)^k (Chen et al., arXiv 2107.03374).
    The draws are followed one by one, so that only positive terms are added. Small values do not cancel,
    large n do not overflow, and a larger k never gives less.

    Args:
        n: samples per prompt, integers.
        c: correct samples among them, integers in 0..n.
        k: draws, integers in 1..n. The three broadcast against each other.

    Returns:
        float64 in [0, 1]: a float for three scalars, else an array of the broadcast shape.

    Raises:
        ValueError: k > n, c > n, k < 1, c < 0, or a value that is not an integer.
    """
    total, right, draws = _counts(n, c, k)
    hit = np.zeros(total.shape, dtype=np.float64)
    for drawn in range(int(draws.max(initial=0))):
        left = np.maximum(total - drawn, 1)
        hit = np.where(drawn < draws, hit + (1.0 - hit) * np.minimum(right / left, 1.0), hit)
    hit = np.where(total - right < draws, 1.0, np.minimum(hit, 1.0))
    return float(hit) if hit.ndim == 0 else hit


def majority(answers: NDArray[np.integer], correct: NDArray[np.bool_]) -> NDArray[np.float64]:
    """maj@n, the probability that the most frequent answer among all n samples is right.

    Samples without an answer do not vote. Where m answers tie for the most votes, one of them is drawn at random: the
    right one counts 1/m. Without a vote the prompt is not solved.

    Args:
        answers: (prompts, n) integers, the index of the first sample with the same answer, `NO_CLASS` without one.
        correct: (prompts, n), whether a sample is right; an answer is right if the first sample that gave it is.

    Returns:
        (prompts,) float64 in [0, 1].
    """
    votes = class_counts(answers)
    most = votes.max(axis=1, keepdims=True)
    tied = (votes == most) & (votes > 0)
    # Classes are numbered by their first sample, so column i of `correct` also belongs to class i.
    right = tied & correct[:, : votes.shape[1]]
    return np.asarray(right.sum(axis=1) / np.maximum(tied.sum(axis=1), 1))


def class_counts(codes: NDArray[np.integer], among: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """The number of samples of each class, prompt by prompt.

    Args:
        codes: (prompts, samples), each at most the number of samples - 1 per prompt; `NO_CLASS` is not counted.
        among: (prompts, samples), the samples that count; None for all.

    Returns:
        (prompts, classes) int64, classes = the largest code + 1.
    """
    counted = codes != NO_CLASS if among is None else (codes != NO_CLASS) & among
    width = int(codes.max(initial=0)) + 1
    places = np.arange(len(codes))[:, None] * width + codes
    return np.bincount(places[counted], minlength=len(codes) * width).reshape(len(codes), width)


def _counts(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> tuple[NDArray[np.int64], ...]:
    total, right, draws = np.broadcast_arrays(np.asarray(n), np.asarray(c), np.asarray(k))
    for letter, values in (("n", total), ("c", right), ("k", draws)):
        if values.size and not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"pass_at_k: {letter} must be integers, got {values.dtype}")
    rules = {
        "needs k >= 1 and c >= 0": (draws < 1) | (right < 0),
        "needs c <= n: no more correct samples than samples": right > total,
        "needs k <= n: sample at least k times per prompt": draws > total,
    }
    for rule, broken in rules.items():
        if broken.any():
            first_n, first_c, first_k = (int(value[broken].flat[0]) for value in (total, right, draws))
            raise ValueError(f"pass_at_k {rule}, got n={first_n}, c={first_c}, k={first_k}")
    return total, right, draws


@lru_cache(maxsize=64)
def right_among(n: int, k: int) -> Floats:
    """(n + 1, k + 1) by c and j: the chance of j right samples among k of n with c right ones; read-only."""
    c, j = np.arange(n + 1)[:, None], np.arange(k + 1)
    wrong = n - c
    possible = (j <= c) & (k - j <= wrong)
    # Logarithms of 1 / ((c + 1) C(c, j)) and 1 / ((n - c + 1) C(n - c, k - j)); factors of a row are divided out.
    ways = betaln(j + 1, np.maximum(c - j, 0) + 1) + betaln(k - j + 1, np.maximum(wrong - k + j, 0) + 1)
    weights = np.where(
        possible, np.exp(np.min(ways, axis=1, where=possible, initial=np.inf, keepdims=True) - ways), 0.0
    )
    chances: Floats = weights / weights.sum(axis=1, keepdims=True)
    chances.flags.writeable = False
    return chances
