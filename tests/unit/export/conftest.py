"""A run whose first stages can be exported."""

import json
from pathlib import Path

import polars as pl
import pytest
from small_run import INDEX, SmallRun, build
from tiny_models import TOKENS

PROMPTS, GOLD = "prompts/train.parquet", "gold/train.parquet"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with plain prompts, each with the ground truth 7."""
    run = SmallRun(tmp_path_factory.mktemp("built") / "run")
    build(run.root)
    texts = {ids[0]: f"{TOKENS[ids[0]]}{TOKENS[ids[1]]}" for ids in run.read(PROMPTS)["prompt_token_ids"]}
    messages = [[{"role": "user", "content": texts[ids[0]]}] for ids in run.read(PROMPTS)["prompt_token_ids"]]
    run.rewrite(PROMPTS, run.read(PROMPTS).with_columns(messages=pl.Series([*map(json.dumps, messages)])))
    run.change_footer(PROMPTS, lambda footer: footer["config"]["prompts"].update(template="plain"))
    run.rewrite(GOLD, run.read(GOLD).with_columns(ground_truth=pl.lit('{"answer": "7"}')))
    digest = run.footer(PROMPTS)["digest"]
    run.change_footer(INDEX, lambda footer: footer["inputs"]["prompts"].update(digest=digest))
    return run.root
