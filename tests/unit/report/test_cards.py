"""Model cards: valid metadata, the values of the headline table, the same bytes for the same run."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from experiments import experiment
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import eval_results_to_model_index

from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import read_config
from dphrl.report.cards import Run, card
from dphrl.store.policy_names import PolicyName

POLICY = PolicyName("dph_js", 1, 40)
COMMAND = "snakemake --cores 2 results/demo/policies/dph_js-s1/step40.json --configfile CONFIG"


@pytest.fixture(scope="module")
def config() -> Config:
    return read_config(Path(__file__).resolve().parents[3] / "config" / "config.yaml")


def written(
    tables: dict[str, pl.DataFrame], config: Config, base: str | None = "Llama-3.1-8B", supervised: str | None = None
) -> str:
    sizes = pl.DataFrame({"dataset": ["cross", "maths"], "rows": [41, 40], "prompts": [40, 40], "kept": [39, 40]})
    run = Run(
        base,
        "train",
        {"cross": "sql", "in_domain": "sql", "maths": "math"},
        supervised,
        tables["headline"],
        sizes,
        pl.DataFrame({"method": "dph_js", "seed": 1, "step": range(1, 41)}),
    )
    return card(POLICY, run, slices.train(config, "dph_js"), "0123abcd", {"pef": 12, "exp": 36}, COMMAND)


def test_the_metadata_are_valid_and_have_the_results_with_intervals(tables: Any, config: Config) -> None:
    found = ModelCard(written(tables, config)).data
    assert (found.library_name, found.pipeline_tag) == ("transformers", "text-generation")
    assert found.base_model == "Llama-3.1-8B"
    assert found.tags == ["reinforcement-learning", "dph-rl", "dph_js"]
    (index,) = eval_results_to_model_index(found.model_name, found.eval_results)
    assert index["name"] == "DPH-JS, seed 1, step 40"
    assert {one["dataset"]["name"] for one in index["results"]} == set(tables["headline"]["dataset"])
    row = tables["headline"].filter(method="dph_js", dataset="cross", metric="pass@8")
    value, low, high = (round(100 * row[name].item(), 2) for name in ("value", "low", "high"))
    (of_cross,) = [one["metrics"] for one in index["results"] if one["dataset"]["name"] == "cross"]
    (metric,) = [one for one in of_cross if one["type"] == "pass@8"]
    assert metric["value"] == value
    assert metric["args"] == {"low": low, "high": high, "confidence": 0.95}


def test_the_text_has_method_data_results_configuration_and_command(tables: Any, config: Config) -> None:
    text = ModelCard(written(tables, config)).text
    for part in (
        "trained from Llama-3.1-8B.",
        "40 steps of 16 prompts of D_exp with 16 rollouts each",
        "12 prompts in D_pef, 36 in D_exp",
        "| DPH-JS seed 1, step 40 ",
        '  "divergence": "js",\n',
        f"    {COMMAND}\n",
    ):
        assert part in text, part
    assert "| cross | sql | 41 | 40 | 39 |" in " ".join(text.split())
    assert "GRPO" not in text


def test_equal_runs_have_equal_cards_and_a_base_without_a_name_has_none(tables: Any, config: Config) -> None:
    assert written(tables, config) == written(tables, config)
    found = ModelCard(written(tables, config, base=None))
    assert found.data.base_model is None
    assert "from a base model that the same run made." in found.text


def test_a_supervised_start_is_named(tables: Any, config: Config) -> None:
    assert slices.cards(config)["cards"]["supervised"] is None
    supervised = slices.cards(experiment("demo-llm"))["cards"]["supervised"]
    assert supervised == "200 updates on supervised.jsonl"
    text = ModelCard(written(tables, config, supervised=supervised)).text
    assert "from Llama-3.1-8B, after a supervised start of 200 updates on supervised.jsonl." in text


def test_a_name_that_is_yaml_or_markdown_stays_a_name(tables: Any, config: Config) -> None:
    found = ModelCard(written(tables, config, base="a: [b] # `c`"))
    assert found.data.base_model == "a: [b] # `c`"
    assert "from a: [b] \\# \\`c\\`." in found.text
