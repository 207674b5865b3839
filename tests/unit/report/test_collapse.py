"""The diagnosis on each method of a run."""

import numpy as np
import polars as pl
import pytest
from made_evaluations import evaluation, study

from dphrl.report.collapse import collapse


def test_a_method_whose_coverage_comes_back_at_a_higher_temperature_is_sharpened():
    """Two trainings are right on half of the questions only; at 1.6 they are as right as the base, at 1.3 not."""
    generator = np.random.default_rng(3)
    half = np.arange(200) < 100

    def drawn(rates, method="grpo", seed=1):
        right = generator.random((200, 8)) < rates[:, None]
        return evaluation(right, method, "d", *((seed, 40) if method != "base" else ()), style=())

    cold, base = np.where(half, 1.0, 0.0), np.full(200, 0.5)
    last = study(pl.concat([drawn(base, "base"), drawn(cold), drawn(cold, seed=2), drawn(cold, "dapo")]), k=(1, 4))
    hotter = {
        temperature: study(pl.concat([drawn(rates), drawn(rates, seed=2)]), k=(1, 4))
        for temperature, rates in ((1.3, cold), (1.6, base))
    }
    found = collapse(last, hotter)
    assert dict(found["collapse"].select("method", "word").iter_rows()) == {"dapo": "COLLAPSED", "grpo": "SHARPENED"}
    assert "Drawn hotter (temperature 1.6, chosen on" in found["collapse"].filter(method="grpo")["text"].item()
    shown = found["hotter"].select("method", "temperature", "k", "chosen", "recovers").rows()
    assert shown == [("grpo", 1.3, 4, False, True), ("grpo", 1.6, 4, True, True)]
    assert found["hotter"]["value"].to_list() == pytest.approx([0.5, 0.94], abs=0.03)
    assert collapse(last)["hotter"].is_empty()
