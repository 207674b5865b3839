"""The division of the training prompts: thresholds, refinement, and that nothing is lost."""

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config.blocks.training import PartitionConfig
from dphrl.data.fields import Fields
from dphrl.data.partition import candidates, refine
from dphrl.data.partition import given as divided_by
from dphrl.store.catalogue import SCHEMAS


def _gold(kept: dict[str, bool]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "prompt_id": list(kept),
            "ground_truth": ["{}"] * len(kept),
            "verdict": ["correct" if k else "runtime_error" for k in kept.values()],
            "kept": list(kept.values()),
            "reason": [None if k else "unrunnable" for k in kept.values()],
        },
        schema=SCHEMAS["gold"].columns,
    )


def _verdicts(correct: dict[str, list[bool]], seed: int = 0) -> pl.DataFrame:
    """Verdicts in a random order."""
    rows = [
        {
            "prompt_id": prompt_id,
            "sample_index": i,
            "verdict": "correct" if c else "wrong",
            "correct": c,
            "reward": float(c),
        }
        for prompt_id, samples in correct.items()
        for i, c in enumerate(samples)
    ]
    random.Random(seed).shuffle(rows)
    return pl.DataFrame(rows, schema=SCHEMAS["verdicts"].columns)


def _samples(c: int, n: int = 8) -> list[bool]:
    return [True] * c + [False] * (n - c)


BY_COUNT = {f"p{c}": _samples(c) for c in range(9)}


def _divided(frame: pl.DataFrame) -> dict[str, str]:
    return dict(frame.select("prompt_id", "subset").iter_rows())


@pytest.mark.parametrize("threshold", [6, 8])
def test_counts_land_in_the_right_set(threshold: int) -> None:
    config = PartitionConfig(pef_min_correct=threshold)
    found = candidates(_gold(dict.fromkeys(BY_COUNT, True)), _verdicts(BY_COUNT), 8, config)
    assert _divided(found) == {f"p{c}": "pef" if c >= threshold else "exp" for c in range(9)}
    assert found["c"].to_list() == list(range(9))
    assert found["n"].to_list() == [8] * 9
    assert found["reference_sample"].null_count() == 9


@pytest.mark.parametrize(
    ("gold", "samples", "named"),
    [
        ({"a": True, "b": True}, {"a": [True] * 2}, "1 prompts .* first b with 0 samples and a gold row"),
        ({"a": True}, {"a": [True] * 2, "b": [True] * 2}, "1 prompts .* first b with 2 samples and no gold row"),
        ({"b": False, "a": True}, {"a": [True] * 3, "b": [True]}, "2 prompts .* first a with 3 samples and a gold row"),
    ],
)
def test_missing_or_surplus_samples_are_an_error(
    gold: dict[str, bool], samples: dict[str, list[bool]], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        candidates(_gold(gold), _verdicts(samples), 2, PartitionConfig(pef_min_correct=2))


def test_prompts_without_a_kept_gold_or_without_a_correct_sample_are_dropped() -> None:
    config = PartitionConfig(pef_min_correct=2, drop_all_wrong=True)
    samples = {"a": [True] * 2, "b": [True] * 2, "c": [False] * 2, "d": [True, False]}
    divided = candidates(_gold({"a": False, "b": True, "c": True, "d": True}), _verdicts(samples), 2, config)
    assert divided.select("subset", "reason").rows() == [
        ("dropped", "gold: unrunnable"),
        ("pef", "near-perfect"),
        ("dropped", "no sample correct"),
        ("exp", "below threshold"),
    ]


@pytest.mark.parametrize("samples", [{}, {"a": [False] * 8}])
def test_without_candidates_there_is_nothing_to_refine(samples: dict[str, list[bool]]) -> None:
    divided = candidates(_gold(dict.fromkeys(samples, True)), _verdicts(samples), 8, PartitionConfig())
    assert SCHEMAS["partition"].conform(divided, "test").height == len(samples)
    assert refine(divided, _verdicts({}), PartitionConfig()).equals(divided)


CANDIDATES = candidates(
    _gold(dict.fromkeys(BY_COUNT, True)), _verdicts(BY_COUNT), 8, PartitionConfig(pef_min_correct=6)
)


@pytest.mark.parametrize(("on_reject", "rejected"), [("explore", "exp"), ("discard", "dropped")])
def test_a_wrong_further_sample_sends_the_prompt_away(on_reject: str, rejected: str) -> None:
    config = PartitionConfig(pef_min_correct=6, on_reject=on_reject)
    found = refine(CANDIDATES, _verdicts({"p6": [True], "p7": [False], "p8": [True]}), config)
    assert _divided(found) == {**{f"p{c}": "exp" for c in range(6)}, "p6": "pef", "p7": rejected, "p8": "pef"}
    assert found["reference_sample"].to_list() == [None] * 6 + [0, None, 0]
    assert found["reason"].to_list()[6:] == ["near-perfect", "refined sample wrong", "near-perfect"]
    assert found.select("prompt_id", "n", "c").equals(CANDIDATES.select("prompt_id", "n", "c"))


@pytest.mark.parametrize(
    "drawn",
    [
        {"p6": [True], "p7": [True]},
        {"p6": [True], "p7": [True], "p8": [True], "p5": [True]},
    ],
    ids=str,
)
def test_refinement_needs_one_verdict_for_each_candidate(drawn: dict[str, list[bool]]) -> None:
    with pytest.raises(ValueError, match=r"3 candidates of D_pef but .* rerun the sample and score stages"):
        refine(CANDIDATES, _verdicts(drawn), PartitionConfig())


PROMPTS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=6),
    st.tuples(st.booleans(), st.lists(st.booleans(), min_size=4, max_size=4), st.booleans()),
    max_size=30,
)


@given(
    prompts=PROMPTS,
    threshold=st.integers(1, 4),
    on_reject=st.sampled_from(["explore", "discard"]),
    drop_all_wrong=st.booleans(),
    seed=st.integers(0, 3),
)
def test_no_prompt_is_lost_or_counted_twice(
    prompts: dict[str, tuple[bool, list[bool], bool]], threshold: int, on_reject: str, drop_all_wrong: bool, seed: int
) -> None:
    config = PartitionConfig(pef_min_correct=threshold, on_reject=on_reject, drop_all_wrong=drop_all_wrong)
    gold = _gold({name: kept for name, (kept, _, _) in prompts.items()})
    samples = {name: correct for name, (_, correct, _) in prompts.items()}
    candidate = candidates(gold, _verdicts(samples, seed), 4, config)
    chosen = candidate.filter(subset="pef")["prompt_id"].to_list()
    final = refine(candidate, _verdicts({name: [prompts[name][2]] for name in chosen}, seed), config)
    for frame in (candidate, final):
        assert frame["prompt_id"].to_list() == sorted(prompts)
        assert SCHEMAS["partition"].conform(frame, "test").equals(frame)
        assert dict(frame.select("prompt_id", "c").iter_rows()) == {name: sum(s) for name, s in samples.items()}
    stored = final.filter(pl.col("reference_sample").is_not_null())["prompt_id"].to_list()
    assert stored == final.filter(subset="pef")["prompt_id"].to_list() == [n for n in chosen if prompts[n][2]]
    dropped = {
        name
        for name, (kept, correct, further) in prompts.items()
        if not kept
        or (drop_all_wrong and not any(correct))
        or (on_reject == "discard" and sum(correct) >= threshold and not further)
    }
    assert set(final.filter(subset="dropped")["prompt_id"]) == dropped


@given(prompts=PROMPTS, cut=st.text("abcdef", max_size=3))
def test_the_division_in_parts_is_that_of_the_whole(
    prompts: dict[str, tuple[bool, list[bool], bool]], cut: str
) -> None:
    config = PartitionConfig(pef_min_correct=2)
    gold = _gold({name: kept for name, (kept, _, _) in prompts.items()})
    verdicts = _verdicts({name: correct for name, (_, correct, _) in prompts.items()})
    parts = [
        candidates(gold.filter(inside), verdicts.filter(inside), 4, config)
        for inside in (pl.col("prompt_id") < cut, pl.col("prompt_id") >= cut)
    ]
    assert pl.concat(parts).equals(candidates(gold, verdicts, 4, config))


def _prompts(ids: dict[str, int]) -> pl.DataFrame:
    return pl.DataFrame({"prompt_id": list(ids), "source_index": list(ids.values())})


SOURCE = [
    {"prompt": [{"role": "user", "content": "first"}], "cmp_method": "bird", "gold_sql": "SELECT 1"},
    {"question": "How many?", "db_id": "school", "SQL": "SELECT 2"},
    {"question": "How many?", "db_id": "zoo", "SQL": "SELECT 3"},
    {"prompt": "last", "gold_sql": "SELECT 4"},
]


def test_a_division_made_elsewhere_is_found_by_id_index_prompt_or_question() -> None:
    prompts = _prompts({"a": 0, "b": 1, "c": 2, "d": 3})
    gold = _gold(dict.fromkeys("abcd", True) | {"d": False})
    files = {
        # As the released train_correct.jsonl, with more fields, and an id.
        "pef": [{**SOURCE[0], "id": 7, "pass_at_8": 1.0}, {"prompt_id": "d"}],
        "exp": [{"question": "How many?", "db_id": "zoo"}, {"source_index": 2}, {"question": "Who?", "db_id": "zoo"}],
    }
    table, note = divided_by(gold, prompts, SOURCE, files, Fields({}))
    assert table.select("prompt_id", "subset", "reason").rows() == [
        ("a", "pef", "given"),
        ("b", "dropped", "in neither file"),
        ("c", "exp", "given"),
        ("d", "dropped", "gold: unrunnable"),
    ]
    assert note == "2 prompts of 2 rows for pef; 1 prompts of 3 rows for exp (1 rows are no prompt, first row 2)"
    assert table.schema == SCHEMAS["partition"].columns


@pytest.mark.parametrize(
    ("pef", "exp", "message"),
    [
        ([{"prompt_id": "a"}], [{"source_index": 0}], "1 prompts are in both files, first a"),
        ([{"prompt_id": "a"}], [{"text": "first"}], "partition.given.exp: none of 1 rows is a prompt.*fields text"),
        # A number is no id of this project, and True no index.
        ([{"prompt_id": "a"}], [{"prompt_id": 0}, {"source_index": False}], "partition.given.exp: none of 2 rows"),
    ],
)
def test_a_division_that_cannot_be_used_is_refused(
    pef: list[dict[str, object]], exp: list[dict[str, object]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        divided_by(_gold({"a": True}), _prompts({"a": 0}), SOURCE, {"pef": pef, "exp": exp}, Fields({}))
