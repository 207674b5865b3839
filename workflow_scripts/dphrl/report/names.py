"""Labels of methods, and the order of methods and datasets, for tables, figures and pages."""

from collections.abc import Iterable, Sequence

import polars as pl

# In reading order.
_LABELS = {
    "base": "Base",
    "base_itself": "Base against itself",
    "grpo": "GRPO",
    "dapo": "DAPO",
    "rkl": "RKL",
    "rkl_k2": "RKL, k2",
    "rkl_reward_k1": "RKL, k1 in the reward",
    "exp_only": "D_exp only",
    "alpha": "Alpha",
    "dph_f": "DPH-F",
    "dph_js": "DPH-JS",
    "js_definition": "DPH-JS by definition",
}


def in_order(methods: Iterable[str]) -> list[str]:
    """Method names: base, the paper's baselines, then its methods, then any other alphabetically."""
    known = list(_LABELS)
    return sorted(set(methods), key=lambda name: (known.index(name) if name in _LABELS else len(known), name))


def label(method: str) -> str:
    """Label of a method; a method without a label keeps its name."""
    return _LABELS.get(method, method)


def datasets_in_order(table: pl.DataFrame, order: Sequence[str]) -> list[str]:
    """The datasets of a table in the given order, all others after them alphabetically."""
    return sorted(set(table["dataset"]), key=lambda name: (order.index(name) if name in order else len(order), name))


def last_steps(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of the last step of each method and seed."""
    return table.filter(pl.col("step") == pl.col("step").max().over("method", "seed"))


def at_published_k(table: pl.DataFrame) -> pl.DataFrame:
    """Of each dataset the rows of k = 8, as published (arXiv 2509.07430, Figure 4), else the nearest k."""
    k = pl.col("k")
    below, smallest = k.filter(k <= 8).max().over("dataset"), k.min().over("dataset")
    return table.filter(k == pl.coalesce(below, smallest))
