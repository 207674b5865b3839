"""Results published in arXiv 2509.07430, by setting, from `published.yaml`."""

from pathlib import Path
from typing import Any

import polars as pl
import yaml

# The names that methods have in config/experiments, by the rows of the published tables.
_METHODS = {
    "Base": "base",
    "GRPO": "grpo",
    "DAPO": "dapo",
    "RKL": "rkl",
    "DPH-F": "dph_f",
    "DPH-JS": "dph_js",
    "DPH-JS, eta 0.01": "js_0_01",
    "DPH-JS, eta 0.05": "js_0_05",
    "DPH-JS, eta 0.2": "dph_js",
    "DPH-JS by definition, eta 0.01": "js_definition_0_01",
    "DPH-JS by definition, eta 0.05": "js_definition_0_05",
    "DPH-JS by definition, eta 0.2": "js_definition_0_2",
    "Alpha 0.2": "alpha_0_2",
    "Alpha 0.5": "alpha_0_5",
    "Alpha 0.8": "alpha_0_8",
}


def read_published(path: Path, setting: str) -> dict[str, dict[str, Any]]:
    """The published tables of a setting, by the name of their layout.

    Raises:
        ValueError: the file has no such setting.
    """
    known = yaml.safe_load(path.read_text(encoding="utf-8"))
    if setting not in known:
        raise ValueError(f"{path.name}: no setting {setting!r}; evaluate.published is one of {', '.join(known)}")
    return {table["layout"]: table for table in known[setting]}


def published_points(path: Path, setting: str) -> pl.DataFrame:
    """The published values that figures show next to those of a run of that setting.

    Returns:
        method str (as config/experiments names it), dataset str, metric str (greedy, mean or pass@k), value f64, a
        proportion; without averages and without rows of methods that no experiment trains.
    """
    cells = [
        (_METHODS[row], *column.split(" "), value / 100)
        for table in read_published(path, setting).values()
        for row, values in table["rows"].items()
        for column, value in zip(table["columns"], values, strict=True)
        if row in _METHODS and column != "average"
    ]
    return pl.DataFrame(cells, schema=["method", "dataset", "metric", "value"], orient="row")
