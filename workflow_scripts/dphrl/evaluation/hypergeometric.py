"""How many of k samples are right, drawn without replacement from the n samples of a prompt."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from dphrl.evaluation.crossed import Floats


@lru_cache(maxsize=64)
def right_among(n: int, k: int) -> Floats:
    """(n + 1, k + 1) by c and j: the chance of j right samples among k of n with c right ones; read-only."""
    c, j = np.arange(n + 1)[:, None], np.arange(k + 1)
    wrong = n - c
    possible = (j <= c) & (k - j <= wrong)
    # Logarithms of 1 / ((c + 1) C(c, j)) and 1 / ((n - c + 1) C(n - c, k - j)); factors of a row are divided out.
    ways = betaln(j + 1, np.maximum(c - j, 0) + 1) + betaln(k - j + 1, np.maximum(wrong - k + j, 0) + 1)
    found = np.where(possible, np.exp(np.min(ways, axis=1, where=possible, initial=np.inf, keepdims=True) - ways), 0.0)
    chances: Floats = found / found.sum(axis=1, keepdims=True)
    chances.flags.writeable = False
    return chances


def g_pass_at_k(n: int, c: NDArray[np.integer], k: int, tau: float) -> Floats:
    """G-Pass@k, the chance that at least ceil(tau k) of k samples are right (arXiv 2412.13147; open-compass/GPassK).

    Without bias for k independent samples. For tau = 1 it is pass^k; for tau = 0 at least one must be right: pass@k.

    Args:
        n, k: samples per prompt and draws, 1 <= k <= n.
        c: (prompts,) integers, right samples.
        tau: in [0, 1].

    Returns:
        (prompts,) float64.
    """
    # 0.7 * 10 is a little above 7.
    fewest = max(int(np.ceil(np.round(tau * k, 9))), 1)
    return np.minimum(right_among(n, k)[:, fewest:].sum(axis=1), 1.0)[c]


def mg_pass_at_k(n: int, c: NDArray[np.integer], k: int) -> Floats:
    """mG-Pass@k, the mean of G-Pass@k over tau from 0.5 to 1: 2 / k times the sum of G-Pass@k at i / k, k / 2 < i <= k.

    Args, Returns: as `g_pass_at_k`. The sum starts after ceil(k / 2), as in open-compass/GPassK; it is empty for k = 1.
    """
    half = -(-k // 2)
    # Each j right samples count in the terms i = half + 1 .. j.
    terms = np.maximum(np.arange(k + 1) - half, 0)
    return np.minimum(right_among(n, k) @ terms * (2.0 / k), 1.0)[c]
