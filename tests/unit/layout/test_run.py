"""The files that a configuration plans."""

import os
from pathlib import Path
from typing import Any

import pytest

from dphrl.config.load import load_config
from dphrl.layout.kinds import kind_of
from dphrl.layout.names import BASE, PolicyName
from dphrl.layout.run import Layout, with_digests

TOY = {"task": "sql", "source": "toy"}


def _layout(**blocks: Any) -> Layout:
    config = {
        "run": "run",
        "toy": {},
        "datasets": {"train": TOY, "cross": TOY},
        "train_dataset": "train",
        "sampling": {"presample": {"shards": 2}},
        "train": {"steps": 8, "segment_steps": 2, "eval_every": 4, "seeds": [1, 2]},
        "methods": {
            "grpo": {"online": "all"},
            "dph_f": {"divergence": "forward_kl"},
            "rkl": {"divergence": "reverse_kl"},
        },
        "evaluate": {"datasets": ["cross"]},
    }
    return Layout(load_config(config | blocks))


def test_policies_and_segments_are_named_in_order() -> None:
    layout = _layout(methods={"grpo": {"online": "all"}})
    assert [str(policy) for policy in layout.policies()] == [
        "base", "grpo-s1/step4", "grpo-s1/step8", "grpo-s2/step4", "grpo-s2/step8"
    ]  # fmt: skip
    assert [end.step for end in layout.segments()] == [2, 4, 6, 8] * 2


def test_a_method_that_names_its_steps_ends_there_and_is_evaluated_there() -> None:
    layout = _layout(methods={"grpo": {"online": "all", "steps": 10}, "exp_only": {}})
    assert [str(policy) for policy in layout.policies() if policy.seed == 1] == [
        "grpo-s1/step4", "grpo-s1/step8", "grpo-s1/step10", "exp_only-s1/step4", "exp_only-s1/step8"
    ]  # fmt: skip
    assert [end.step for end in layout.segments() if end.seed == 1] == [2, 4, 6, 8, 10, 2, 4, 6, 8]
    kept = [path.removeprefix("results/run/train/") for path in layout.kept("state") if "-s1/" in path]
    assert kept == ["grpo-s1/step10/state.json", "exp_only-s1/step8/state.json"]
    shorter = _layout(methods={"grpo": {"online": "all", "steps": 2}, "exp_only": {}})
    assert next(str(policy) for policy in shorter.policies() if policy.seed == 1) == "grpo-s1/step2"


def test_a_change_of_the_steps_of_a_method_adds_jobs_of_that_method_only() -> None:
    before, after = (
        _layout(methods={"grpo": {"online": "all", **more}, "exp_only": {}}) for more in ({}, {"steps": 12})
    )
    added = {*after.of_segments("policy")} - {*before.of_segments("policy")}
    assert {*before.of_segments("policy")} < {*after.of_segments("policy")}
    assert {path.removeprefix("results/run/policies/").removesuffix("/manifest.json") for path in added} == {
        *("grpo-s1/step10", "grpo-s1/step12", "grpo-s2/step10", "grpo-s2/step12"),
    }
    for method in ("grpo", "exp_only"):
        fields = {"method": method, "seed": "1", "step": "8"}
        assert before.slice("policy")(fields) == after.slice("policy")(fields)
        assert before.start_inputs(fields) == after.start_inputs(fields)


def test_paths_keep_the_fields_that_are_not_given() -> None:
    layout = _layout()
    assert (
        layout.path("verdicts", policy=BASE, plan="refine")
        == "results/run/verdicts/base/{dataset}.refine/{shard}.parquet"
    )
    assert layout.manifest(PolicyName("grpo", 1, 4)) == "results/run/policies/grpo-s1/step4/manifest.json"
    assert layout.shards("rollouts", BASE, "train", "presample") == [
        f"results/run/rollouts/base/train.presample/{shard}.parquet" for shard in (0, 1)
    ]


def test_every_planned_file_is_of_a_known_kind() -> None:
    layout = _layout()
    planned = [*layout.audit_inputs(), *layout.evaluations(), *layout.segment_timings(), *layout.sampling_timings()]
    assert all(kind_of(path.removeprefix("results/run/")) for path in planned)
    assert len(planned) == len({*planned}) + len(layout.evaluations())


def test_a_segment_starts_from_the_base_or_from_the_end_of_the_one_before() -> None:
    layout = _layout()
    first, later = ({"method": "grpo", "seed": "1", "step": step} for step in ("2", "6"))
    assert layout.start_inputs(first) == {"policy": "results/run/policies/base/manifest.json"}
    assert layout.start_inputs(later) == {
        "policy": "results/run/policies/grpo-s1/step4/manifest.json",
        "state": "results/run/train/grpo-s1/step4/state.json",
    }
    assert (layout.segment_steps(first), layout.segment_steps(later)) == ([1, 2], [5, 6])
    assert layout.training_seed(later) == 1


def test_states_and_policies_that_no_job_needs_any_more_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = _layout(methods={"grpo": {"online": "all"}})

    def states(*steps: int) -> list[str]:
        return [f"results/run/train/grpo-s1/step{step}/state.json" for step in steps]

    def policies(*steps: int) -> list[str]:
        return [f"results/run/policies/grpo-s1/step{step}/manifest.json" for step in steps]

    # Policies of the steps 4 and 8 are evaluated.
    removed = {step: layout.superseded_by({"method": "grpo", "seed": "1", "step": str(step)}) for step in (2, 4, 6, 8)}
    assert removed[2] == removed[4] == []
    assert sorted(removed[6]) == sorted(states(2) + policies(2))
    assert sorted(removed[8]) == sorted(states(2, 4) + policies(2))
    assert [path for path in layout.kept("state") if "-s1/" in path] == states(8)
    assert [path for path in layout.kept("policy") if "-s1/" in path] == policies(4, 8)

    monkeypatch.chdir(tmp_path)
    assert layout.removable() == []
    for step in (2, 4, 6):
        state = tmp_path / f"results/run/train/grpo-s1/step{step}/state.json"
        state.parent.mkdir(parents=True)
        state.touch()
    assert sorted(layout.removable()) == sorted(states(2, 4) + policies(2))

    every = _layout(train={"steps": 8, "segment_steps": 2, "eval_every": 4, "keep_state": "all"})
    assert every.superseded_by({"method": "grpo", "seed": "1", "step": "8"}) == every.removable() == []
    assert every.kept("state") == every.of_segments("state")


@pytest.mark.parametrize(("method", "inputs"), [("grpo", set()), ("dph_f", {"reference", "index"}), ("rkl", {"base"})])
def test_a_method_reads_what_its_divergence_needs(method: str, inputs: set[str]) -> None:
    assert set(_layout().method_inputs({"method": method})) == inputs


def test_samples_come_from_a_model_or_from_recorded_answers() -> None:
    layout = _layout(replay={"gpt": {"cross": "answers.jsonl"}})
    refine = {"policy": "base", "dataset": "train", "plan": "refine"}
    assert set(layout.sampling_inputs(refine)) == {"candidates", "policy"}
    recorded = layout.sampling_inputs({"policy": "gpt", "dataset": "cross", "plan": "evaluate"})
    assert recorded == {"recorded": "answers.jsonl", "policy": "results/run/policies/base/manifest.json"}


def test_the_params_of_a_sampling_job_name_its_policy_for_the_cache_between_runs() -> None:
    names = [{"policy": str(policy), "plan": "evaluate", "shard": "0"} for policy in _layout().policies()]
    assert _layout().policy_plan_and_shard(names[1]) == ["grpo-s1/step4", "evaluate", 0]
    assert len({str(_layout().policy_plan_and_shard(one)) for one in names}) == len(names)


def test_outputs_come_with_their_digests() -> None:
    assert with_digests(one="a", more=["b", "c"]) == {
        "one": "a", "one_digest": "a.sha256", "more": ["b", "c"], "more_digest": ["b.sha256", "c.sha256"]
    }  # fmt: skip


class _Hashed:
    """What Snakemake's checkpoint gives for a dataset once its table is there."""

    def __init__(self, dataset: str) -> None:
        self.output = self
        self.databases = f"results/run/databases/{dataset}.parquet"


def test_jobs_depend_on_the_toys_world_or_on_a_table_of_databases_and_on_neither_for_maths(tmp_path: Path) -> None:
    mine = {"task": "sql", "source": "mine.jsonl", "databases": str(tmp_path)}
    maths = {"task": "math", "source": "maths.jsonl"}
    layout = _layout(datasets={"train": TOY, "cross": TOY, "mine": mine, "maths": maths})
    expected = {"train": ("results/run/toy/manifest.json", []), "maths": ([], [])}
    for dataset, (world, table) in (expected | {"mine": ([], "results/run/databases/mine.parquet")}).items():
        fields = {"dataset": dataset}
        assert (layout.world(fields), layout.databases(fields, _Hashed)) == (world, table)
    assert [path for path in layout.audit_inputs() if "/databases/" in path] == ["results/run/databases/mine.parquet"]
    assert layout.database_digest({"dataset": "train"}) is None
    assert layout.database_digest({"dataset": "mine"}) is None


def test_the_states_of_databases_follow_name_size_and_time_and_need_no_reading(tmp_path: Path) -> None:
    layout = _layout(
        datasets={"train": TOY, "cross": TOY, "mine": {"task": "sql", "source": "s", "databases": str(tmp_path)}}
    )
    fields, file = {"dataset": "mine"}, tmp_path / "a/a.sqlite"
    file.parent.mkdir()
    seen = [layout.database_states(fields)]
    file.touch(mode=0)
    seen.append(layout.database_states(fields))
    os.utime(file, ns=(1, 1))
    seen.append(layout.database_states(fields))
    os.truncate(file, 5)
    os.utime(file, ns=(1, 1))
    seen.append(layout.database_states(fields))
    file.rename(file.with_name("b.sqlite"))
    seen.append(layout.database_states(fields))
    file.symlink_to("nothing")
    seen.append(layout.database_states(fields))
    assert len({*seen}) == len(seen)
    assert layout.database_states(fields) == seen[-1]
