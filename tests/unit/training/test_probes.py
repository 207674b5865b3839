"""Which prompts the probes ask, and the table that is made from their answers."""

from __future__ import annotations

import hashlib
from typing import Any

import polars as pl
from tiny_training import train_config

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
