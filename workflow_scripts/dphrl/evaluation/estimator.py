"""The unbiased estimator of pass@k."""

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray


@overload
def pass_at_k(n: int, c: int, k: int) -> float: ...
@overload
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> NDArray[np.float64] | float: ...
def pass_at_k(n: ArrayLike, c: ArrayLike, k: ArrayLike) -> NDArray[np.float64] | float:
    """Probability that k of n samples drawn without replacement hold a correct one: 1 - C(n-c, k) / C(n, k).

    For n independent samples it is exactly unbiased for 1 - (1 - p)^k (Chen et al., arXiv 2107.03374).
    The draws are followed one by one, so that only positive terms are added: no cancellation for small values,
    no overflow for large n, never less for a larger k.

    Args:
        n: samples per prompt, integers.
        c: correct samples among them, integers in 0..n.
        k: draws, integers in 1..n. The three broadcast against each other.

    Returns:
        float64 in [0, 1]: a float for three scalars, else an array of the broadcast shape.

    Raises:
        ValueError: k > n, c > n, k < 1, c < 0, or a value that is not an integer.
    """
    total, right, draws = np.broadcast_arrays(np.asarray(n), np.asarray(c), np.asarray(k))
    for name, values in (("n", total), ("c", right), ("k", draws)):
        if values.size and not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"pass_at_k: {name} must be integers, got {values.dtype}")
    _refuse((draws < 1) | (right < 0), "needs k >= 1 and c >= 0", total, right, draws)
    _refuse(right > total, "needs c <= n: no more correct samples than samples", total, right, draws)
    _refuse(draws > total, "needs k <= n: sample at least k times per prompt", total, right, draws)

    hit = np.zeros(total.shape, dtype=np.float64)
    for drawn in range(int(draws.max(initial=0))):
        left = np.maximum(total - drawn, 1)
        hit = np.where(drawn < draws, hit + (1.0 - hit) * np.minimum(right / left, 1.0), hit)
    hit = np.where(total - right < draws, 1.0, np.minimum(hit, 1.0))
    return float(hit) if hit.ndim == 0 else hit


def _refuse(bad: NDArray[np.bool_], rule: str, *values: NDArray[np.int64]) -> None:
    if bad.any():
        n, c, k = (int(value[bad].flat[0]) for value in values)
        raise ValueError(f"pass_at_k {rule}, got n={n}, c={c}, k={k}")
