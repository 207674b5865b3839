"""Methods that differ in the weight of their divergence alone (arXiv 2509.07430, figure 3)."""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.layout.methods import in_order, label

_DIVERGENCES = {
    "forward_kl": "Forward KL (DPH-F)",
    "js": "JS (DPH-JS)",
    "js_definition": "JS by definition",
    "alpha": "Alpha",
    "reverse_kl": "Reverse KL (RKL)",
}


def families(methods: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Families of two or more methods that have a divergence and differ only in `eta`: method names by family.

    Args:
        methods: the blocks of the configuration by name.
    """
    alike: dict[str, list[str]] = {}
    for name in in_order(methods):
        if methods[name]["divergence"]:
            rest = {key: value for key, value in methods[name].items() if key != "eta"}
            alike.setdefault(json.dumps(rest, sort_keys=True), []).append(name)
    found: dict[str, list[str]] = {}
    for members in alike.values():
        if len(members) > 1:
            divergence = methods[members[0]]["divergence"]
            family = _DIVERGENCES.get(divergence, divergence)
            # A second family of one divergence is named after its first method.
            found[f"{family}, as {label(members[0])}" if family in found else family] = members
    return found


def ablation(headline: pl.DataFrame, methods: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """The table "ablation": the rates of solved prompts in the headline for the methods of `families`."""
    weights = [
        (family, float(methods[name]["eta"]), name) for family, members in families(methods).items() for name in members
    ]
    schema = {"family": pl.String, "eta": pl.Float64, "method": pl.String}
    named = pl.DataFrame(weights, schema=schema, orient="row").join(headline, on="method")
    return named.filter(pl.col("metric").str.contains("^(greedy$|mean@|pass@)")).select(
        list(SCHEMAS["ablation"].columns)
    )
