"""Which prompts the probes ask, and the table that is made from their answers."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl
import pytest
from tiny_training import train_config

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.evaluation.probes import training_probes
from dphrl.store.catalogue import SCHEMAS
from dphrl.training.probes import ProbePrompt, probe_prompts

KEYS = [f"p{i:02}" for i in range(20)]


def tables(subsets: list[str]) -> list[pl.LazyFrame]:
    """Partition, prompts, golds and three pre-samples of each prompt, the second without log-probs."""
    partition = pl.LazyFrame({"prompt_id": KEYS, "subset": subsets})
    prompts = pl.LazyFrame({"prompt_id": KEYS, "prompt_token_ids": [[i] for i in range(20)], "thought_open": False})
    gold = pl.LazyFrame({"prompt_id": KEYS, "ground_truth": [f'{{"number": {i}}}' for i in range(20)]})
    drawn = [(key, i, [i + 1, 5], [] if i == 1 else [-0.5, -0.25]) for key in KEYS for i in range(3)]
    names = ["prompt_id", "sample_index", "token_ids", "sampler_logprobs"]
    return [partition, prompts, gold, pl.LazyFrame(drawn, schema=names, orient="row")]


def chosen(subsets: list[str], **probe: Any) -> list[ProbePrompt]:
    return probe_prompts(*tables(subsets), train_config(probe=probe))


def test_of_each_subset_the_prompts_whose_ids_have_the_smallest_hashes_are_asked() -> None:
    subsets = ["pef"] * 8 + ["exp"] * 9 + ["dropped"] * 3
    found = chosen(subsets, prompts=4, samples=2)
    order = sorted(KEYS, key=lambda key: hashlib.blake2b(key.encode(), digest_size=16).digest())
    by_subset = dict(zip(KEYS, subsets, strict=True))
    expected = {name: sorted([key for key in order if by_subset[key] == name][:4]) for name in ("pef", "exp")}
    assert {name: [one.prompt.prompt_id for one in found if one.subset == name] for name in ("pef", "exp")} == expected
    assert [one.prompt.prompt_id for one in found] == sorted(one.prompt.prompt_id for one in found)


def test_a_prompt_keeps_its_place_when_others_come_in_or_change_subset() -> None:
    before = {one.prompt.prompt_id for one in chosen(["pef"] * 20, prompts=5)}
    moved = sorted(set(KEYS) - before)[:5]
    after = chosen(["exp" if key in moved else "pef" for key in KEYS], prompts=5)
    assert {one.prompt.prompt_id for one in after if one.subset == "pef"} == before


def test_of_its_pre_samples_those_with_log_probs_are_compared() -> None:
    (one, *_) = chosen(["pef"] * 20, prompts=20, samples=2)
    ((row, logprobs),) = one.drawn
    assert (row.prompt, row.response) == ([0], [1, 5])
    assert logprobs.tolist() == [-0.5, -0.25]
    assert one.prompt.ground_truth == {"number": 0}


def test_a_small_subset_is_asked_whole_and_an_empty_one_not_at_all() -> None:
    assert [one.subset for one in chosen(["exp"] * 2 + ["dropped"] * 18, prompts=5)] == ["exp", "exp"]


# At each step the answers to two prompts of D_pef and one of D_exp: style, whether right, class.
ANSWERS = {
    0: {"a": [("A 1", True, "x"), ("B 1", True, "x")], "b": [("A 2", False, None), ("A 3", True, "y")]},
    4: {"a": [("A 1", True, "x"), ("A 1", True, "x")], "b": [("A 2", True, "y"), ("A 3", True, "z")]},
}


@pytest.mark.parametrize("styled", [True, False])
def test_the_table_has_means_over_prompts_of_each_subset(styled: bool) -> None:
    rows = [
        # The style is that of the extracted answer where the response begins otherwise.
        ("grpo", 1, step, key, number, "pef", f"```sql\n{text}\n```", text, right, answer)
        for step, prompts in ANSWERS.items()
        for key, answers in prompts.items()
        for number, (text, right, answer) in enumerate(answers)
    ]
    rows += [("grpo", 1, 4, "c", 0, "exp", "other", None, False, None)]
    answers = pl.DataFrame(rows, schema=["method", "seed", *SCHEMAS["probes"].columns], orient="row")
    metrics = [("grpo", 1, 4, "probe_forward_kl_pef", 0.25), ("grpo", 1, 4, "reward", 0.5)]
    training = SCHEMAS["training"].frame(metrics)
    styles = [StyleRule(name=name, prefix=f"{name} ") for name in ("A", "B")] if styled else []
    typed = answers.cast({"seed": pl.Int32, "step": pl.Int32})
    found = SCHEMAS["training_probes"].conform(training_probes(typed, training, styles), "test")
    values = found.select("step", "subset", "prompts", "samples", "correct", "distinct_answers", "forward_kl").rows()
    assert values == [
        (0, "pef", 2, 2, 0.75, 1.0, None),
        (4, "exp", 1, 1, 0.0, 0.0, None),
        (4, "pef", 2, 2, 1.0, 1.5, 0.25),
    ]
    assert found["distinct_styles"].to_list() == ([1.5, 1.0, 1.0] if styled else [None] * 3)
    classless = training_probes(typed.with_columns(answer_class=pl.lit(None, pl.String)), training, styles)
    assert SCHEMAS["training_probes"].conform(classless, "test")["distinct_answers"].to_list() == [None] * 3
