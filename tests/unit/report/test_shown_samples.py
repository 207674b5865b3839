"""The samples on the page: which prompts, which responses, and how much of them."""

import hashlib
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dphrl.config.blocks.evaluation import SamplesConfig
from dphrl.report.shown_samples import pick_samples, shards_of

SHARED = {"extracted": None, "answer_class": None, "program_class": None}


def write(folder, right, texts=None, greedy=True, details=None):
    """A dataset of prompts: `right` says by prompt which of its samples are; policy and base answer alike."""
    folder.mkdir(exist_ok=True)
    indices = [(key, index) for key, marks in right.items() for index in range(-greedy, len(marks))]
    rollouts = [
        {"prompt_id": key, "sample_index": index, "text": (texts or {}).get((key, index), f"{key} {index}")}
        for key, index in indices
    ]
    verdicts = [
        {
            **{"prompt_id": key, "sample_index": index, "verdict": "correct" if good else "wrong", "correct": good},
            **{"detail": (details or {}).get((key, index)), **SHARED},
        }
        for key, index in indices
        for good in [index >= 0 and right[key][index]]
    ]
    messages = json.dumps([{"role": "system", "content": "Answer."}, {"role": "user", "content": "How many?"}])
    tables = {
        "prompts": pl.DataFrame({"prompt_id": list(right), "messages": messages}),
        "gold": pl.DataFrame(
            {"prompt_id": list(right), "ground_truth": json.dumps({"gold_sql": "SELECT 1"}), "kept": True}
        ),
        "rollouts": pl.DataFrame(rollouts),
        "verdicts": pl.DataFrame(verdicts, schema_overrides={"detail": pl.String}),
    }
    paths = {name: str(folder / f"{name}.parquet") for name in tables}
    for name, frame in tables.items():
        frame.write_parquet(paths[name])
    return paths


def pick(paths, **limits):
    rollouts, verdicts = ({"Base": [paths[kind]]} for kind in ("rollouts", "verdicts"))
    return pick_samples("d", paths["prompts"], paths["gold"], rollouts, verdicts, SamplesConfig(**limits))


MIXED = {
    **{f"a{i}": [True, True] for i in range(5)},
    **{f"s{i}": [True, False] for i in range(5)},
    **{f"n{i}": [False, False] for i in range(2)},
}


def test_prompts_are_spread_over_what_the_base_solves(tmp_path):
    samples = pick(write(tmp_path, MIXED), prompts=6)
    assert [sample.solved for sample in samples] == [*["always"] * 2, *["sometimes"] * 2, *["never"] * 2]
    assert [(sample.c, sample.n) for sample in samples[::2]] == [(2, 2), (1, 2), (0, 2)]


def test_a_part_with_too_few_prompts_leaves_its_places_to_the_others(tmp_path):
    solved = [sample.solved for sample in pick(write(tmp_path, MIXED), prompts=11)]
    assert {word: solved.count(word) for word in set(solved)} == {"always": 5, "sometimes": 4, "never": 2}
    assert len(pick(write(tmp_path, MIXED), prompts=100)) == len(MIXED)


def test_a_hash_of_the_id_decides_and_rows_may_be_in_any_order(tmp_path):
    alike = {key: [True] for key in "abcdefgh"}
    first = [sample.prompt_id for sample in pick(write(tmp_path, alike), prompts=3)]
    assert first == sorted(alike, key=lambda key: hashlib.sha256(key.encode()).digest())[:3]
    assert [s.prompt_id for s in pick(write(tmp_path, dict(reversed(alike.items()))), prompts=3)] == first


def test_no_prompts_read_no_files():
    assert pick({"prompts": "", "gold": "", "rollouts": "", "verdicts": ""}, prompts=0) == []


def test_responses_are_the_greedy_one_and_the_first_samples(tmp_path):
    right = {"p": [False, True, True]}
    paths = write(tmp_path, right, details={("p", 0): "no such column: x"})
    (sample,) = pick(paths, prompts=1, responses=2)
    shown = [(one.index, one.text, one.verdict, one.reason) for one in sample.responses["Base"]]
    assert shown == [(-1, "p -1", "wrong", ""), (0, "p 0", "wrong", "no such column: x")]
    assert (sample.messages, sample.gold) == ((("system", "Answer."), ("user", "How many?")), "SELECT 1")
    (sample,) = pick(write(tmp_path, right, greedy=False), prompts=1, responses=2)
    assert [one.index for one in sample.responses["Base"]] == [0, 1]


def test_a_long_text_keeps_its_beginning_and_its_end(tmp_path):
    text = "b" * 60 + "m" * 1234 + "e" * 60
    (sample,) = pick(write(tmp_path, {"p": [True]}, {("p", 0): text}, greedy=False), prompts=1, characters=120)
    assert sample.responses["Base"][0].text == f"{'b' * 60}\n[1,234 characters left out]\n{'e' * 60}"


@settings(max_examples=25)
@given(st.text(max_size=400))
def test_a_text_is_bounded_and_holds_no_invisible_controls(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("samples")
    (sample,) = pick(write(folder, {"p": [True]}, {("p", 0): text}, greedy=False), prompts=1, characters=100)
    shown = sample.responses["Base"][0].text
    assert len(shown) <= 100 + len("\n[300 characters left out]\n")
    assert not {character for character in shown if ord(character) < 0x20} - {"\t", "\n"}
    if len(text) <= 100 and text.isprintable():
        assert shown == text


def test_prompts_with_an_excluded_gold_are_not_shown(tmp_path):
    paths = write(tmp_path, MIXED)
    gold, excluded = pl.read_parquet(paths["gold"]), next(iter(MIXED))
    gold.with_columns(kept=pl.col("prompt_id") != excluded).write_parquet(paths["gold"])
    assert {sample.prompt_id for sample in pick(paths, prompts=100)} == {*MIXED} - {excluded}


def test_a_prompt_without_gold_answer_is_an_error(tmp_path):
    paths = write(tmp_path, {"p": [True]})
    pl.DataFrame({"prompt_id": ["q"], "ground_truth": ["{}"], "kept": [True]}).write_parquet(paths["gold"])
    with pytest.raises(ValueError, match="prompt 'p' of the verdicts is not in both"):
        pick(paths, prompts=1)


def test_shards_go_to_their_policy_and_dataset():
    shards = [
        f"results/x/rollouts/{policy}/{dataset}.evaluate/{n}.parquet"
        for policy in ("base", "grpo-s1/step2", "grpo-s1/step20")
        for dataset in ("d", "dd")
        for n in (0, 1)
    ]
    found = shards_of("d", {"base": "base", "grpo": "grpo-s1/step2"}, shards)
    assert found == {"Base": shards[:2], "GRPO": shards[4:6]}
