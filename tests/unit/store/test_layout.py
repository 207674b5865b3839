"""The files that a configuration plans."""

import re
from pathlib import Path
from typing import Any

import pytest

from dphrl.config import slices
from dphrl.config.load import load_config
from dphrl.store.kinds import KINDS, kind_of
from dphrl.store.layout import Layout
from dphrl.store.policy_names import BASE, PolicyName

TOY = {"task": "sql", "source": "toy"}
TRAIN = {"steps": 8, "segment_steps": 2, "eval_every": 4, "seeds": [1, 2]}
GRPO = {"grpo": {"rollout_on": "all"}}


def _layout(**blocks: Any) -> Layout:
    config = {
        "run": "run",
        "toy": {},
        "datasets": {"train": TOY, "cross": TOY},
        "train_dataset": "train",
        "train": TRAIN,
        "methods": GRPO | {"dph_f": {"divergence": "forward_kl"}, "rkl": {"divergence": "reverse_kl"}},
        "evaluate": {"datasets": ["cross"]},
    }
    return Layout(load_config(config | blocks))


def test_a_method_that_names_its_steps_ends_there_and_is_evaluated_there() -> None:
    layout = _layout(methods={"grpo": {"rollout_on": "all", "steps": 10}, "exp_only": {}})
    assert [str(policy) for policy in layout.policies() if policy.seed == 1] == [
        "grpo-s1/step4", "grpo-s1/step8", "grpo-s1/step10", "exp_only-s1/step4", "exp_only-s1/step8"
    ]  # fmt: skip
    assert [end.step for end in layout.segments() if end.seed == 1] == [2, 4, 6, 8, 10, 2, 4, 6, 8]
    kept = [str(end) for end in layout.kept_states() if end.seed == 1]
    assert kept == ["grpo-s1/step10", "exp_only-s1/step8"]
    shorter = _layout(methods={"grpo": {"rollout_on": "all", "steps": 2}, "exp_only": {}})
    assert next(str(policy) for policy in shorter.policies() if policy.seed == 1) == "grpo-s1/step2"


def test_policies_are_drawn_hotter_after_their_last_step() -> None:
    given = {"datasets": ["cross"], "hotter": [1.3, 2]}
    layout = _layout(methods=GRPO, checkpoints={"trl": ["a", "b"]}, evaluate=given)
    names = list(layout.hotter())
    assert names[:2] + names[-2:] == [
        "trl-s1/step0/t1.3", "trl-s1/step0/t2.0", "grpo-s2/step8/t1.3", "grpo-s2/step8/t2.0"
    ]  # fmt: skip
    assert len(names) == 8
    assert all(re.fullmatch(layout.constraints()["policy"], name) for name in names)
    assert layout.sampled_weights({"policy": names[-1]}) == "results/run/policies/grpo-s2/step8"
    assert layout.evaluations()[-1] == ["grpo", 2, 8, "cross", 2.0]
    assert layout.evaluations()[0] == ["base", 0, 0, "cross"]
    for name in names:
        assert kind_of(f"rollouts/{name}/cross.evaluate/0.parquet")
        assert kind_of(f"evaluation/{name}/cross.parquet")
    assert _layout().hotter() == {}


def test_each_seed_but_the_first_has_its_own_draw_which_its_methods_share() -> None:
    layout = _layout()
    assert layout.draws() == ["main", "s2"]
    assert [layout.draw("dph_f", seed) for seed in (1, 2)] == ["main", "s2"]
    # rkl rolls out D_exp; grpo rolls out all questions, whatever the pre-samples say.
    assert (layout.draw("rkl", 2), layout.draw("grpo", 2)) == ("s2", "main")
    assert _layout(methods=GRPO).draws() == ["main"]


def test_each_set_of_stored_responses_that_methods_ask_for_has_a_folder() -> None:
    boundary = {"divergence": "js", "rehearse": "boundary", "rows_per_question": 2}
    methods = GRPO | {"one": boundary, "two": boundary | {"eta": 1.0}}
    assert list(_layout(methods=GRPO).config.stored) == ["reference"]
    layout = _layout(methods=methods | {"right": {"divergence": "forward_kl", "rehearse": "right"}})
    assert list(layout.config.stored) == ["reference", "reference-boundary2", "reference-right1"]
    for name in layout.config.stored:
        assert re.fullmatch(layout.constraints()["stored"], name)
        assert kind_of(f"draws/s2/{name}/index.parquet") is KINDS["index"]
    kept = {name: slices.reference(layout.config, name)["rehearse"] for name in layout.config.stored}
    assert kept == {"reference": "pef", "reference-boundary2": "boundary", "reference-right1": "right"}


@pytest.mark.parametrize("partition", [{"on_reject": "discard"}, {"drop_all_wrong": True}])
def test_where_samples_drop_questions_every_method_needs_its_draw(partition: dict[str, Any]) -> None:
    assert _layout(partition=partition).draw("grpo", 2) == "s2"


def test_another_seed_changes_no_draw_of_those_before() -> None:
    before, after = (_layout(train=TRAIN | {"seeds": seeds}) for seeds in ([1, 2], [1, 2, 7]))
    assert after.draws() == [*before.draws(), "s7"]
    assert {*before.segments()} < {*after.segments()}
    assert all(before.draw(end.method, end.seed) == after.draw(end.method, end.seed) for end in before.segments())


def test_shared_draws_and_recorded_answers_are_one_draw() -> None:
    assert _layout(train=TRAIN | {"draws": "shared"}).draws() == ["main"]
    assert _layout(replay={"base": {"train": "answers.jsonl"}}).draws() == ["main"]


def test_a_method_trains_with_the_first_of_the_seeds() -> None:
    methods = GRPO | {"dph_f": {"divergence": "forward_kl", "seeds": 1}}
    layout = _layout(methods=methods)
    assert {end.training for end in layout.segments()} == {"grpo-s1", "grpo-s2", "dph_f-s1"}
    assert layout.draws() == ["main"]
    more = _layout(methods=methods | {"dph_f": {"divergence": "forward_kl"}})
    assert slices.train(layout.config, "dph_f") == slices.train(more.config, "dph_f")


def test_the_evaluated_steps_may_be_a_list() -> None:
    layout = _layout(train=TRAIN | {"eval_every": [2, 6], "seeds": [1]}, methods=GRPO)
    assert [str(policy) for policy in layout.trained()] == ["grpo-s1/step2", "grpo-s1/step6", "grpo-s1/step8"]
    # The states before the running segment, and the policy that is not evaluated.
    removed = layout.superseded(PolicyName("grpo", 1, 8))
    assert removed == [
        *(f"results/run/states/grpo-s1/step{step}.json" for step in (2, 4, 6)),
        "results/run/policies/grpo-s1/step4.json",
    ]


def test_weights_mixed_with_the_base_are_policies_of_the_end_and_of_checkpoints() -> None:
    layout = _layout(
        methods={"grpo": {"rollout_on": "all", "seeds": 1}},
        checkpoints={"trl": ["out/1"]},
        evaluate={"datasets": ["train"], "mixtures": [0.5, 0.25]},
    )
    names = ["trl-m25-s1/step0", "trl-m50-s1/step0", "grpo-m25-s1/step8", "grpo-m50-s1/step8"]
    assert [str(policy) for policy in layout.mixtures()] == names
    assert [str(policy) for policy in layout.policies()][-4:] == names
    assert layout.mixture({"mixture": "grpo-m25-s1/step8"}) == (PolicyName("grpo", 1, 8), 0.25)
    assert re.fullmatch(layout.constraints()["policy"], "grpo-m25-s1/step8")
    assert kind_of("policies/grpo-m25-s1/step8.json") == KINDS["policy"]


def test_a_list_of_checkpoints_is_one_method_with_seeds_and_a_place_is_one_policy() -> None:
    layout = _layout(checkpoints={"trl": ["out/1", "out/2"], "verl": "hf"}, methods={})
    assert [str(policy) for policy in layout.policies()] == ["base", "trl-s1/step0", "trl-s2/step0", "verl"]
    assert layout.checkpoints() == {
        PolicyName("trl", 1): "out/1",
        PolicyName("trl", 2): "out/2",
        PolicyName("verl"): "hf",
    }
    pattern = re.compile(layout.constraints()["policy"])
    assert all(pattern.fullmatch(name) for name in ("base", "trl-s2/step0", "verl"))
    assert not pattern.fullmatch("trl-s3/step0")
    assert all(PolicyName.parse(str(policy)) == policy for policy in layout.policies())


def test_names_of_the_hub_have_listings_and_paths_have_none(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "optimizer.pt").touch()
    data = {"task": "math", "source": "hf://datasets/org/data@v1/main/train.jsonl"}
    layout = _layout(
        policy={"base": "hf://org/base", "supervised": {"source": "hf://datasets/org/rows/start.jsonl"}},
        datasets={"cross": data},
        train_dataset="",
        methods={},
        evaluate={"datasets": ["cross"]},
        checkpoints={"trl": ["org/a@x", "org/b"], "mine": str(tmp_path)},
    )
    names = {
        "model.start": "hf://org/base",
        "supervised": "hf://datasets/org/rows/start.jsonl",
        "model.trl-s1": "hf://org/a@x",
        "model.trl-s2": "hf://org/b",
        "data.cross": "hf://datasets/org/data@v1/main/train.jsonl",
    }
    assert {listed: str(name) for listed, name in layout.hub_names().items()} == names
    assert layout.files_of_model({"model": "trl-s2/step0"}) == ["results/run/hub/model.trl-s2.json"]
    # No pickles, and nothing of the optimizer.
    assert layout.files_of_model({"model": "mine"}) == [str(tmp_path / "model.safetensors")]
    assert layout.source({"dataset": "cross"}) == "results/run/hub/data.cross.json"
    assert layout.supervised_source() == "results/run/hub/supervised.json"
    assert layout.source_name({"dataset": "cross"}) == "train.jsonl"
    assert layout.draws() == []


def test_paths_keep_the_fields_that_are_not_given() -> None:
    layout = _layout()
    assert layout.path("verdicts", policy=BASE) == "results/run/verdicts/base/{dataset}.evaluate/{shard}.parquet"
    policy = layout.path("policy", **PolicyName("grpo", 1, 4)._asdict())
    assert policy == "results/run/policies/grpo-s1/step4.json"


def test_a_segment_starts_from_the_base_or_from_the_end_of_the_one_before() -> None:
    layout = _layout()
    first, later = ({"method": "grpo", "seed": "1", "step": step} for step in ("2", "6"))
    assert (layout.first_and_last_step(first), layout.first_and_last_step(later)) == ([1, 2], [5, 6])
    assert (layout.step_before(first), layout.step_before(later)) == (0, 4)


def test_a_segment_reads_the_metrics_before_it_only_where_they_can_end_the_training() -> None:
    later = {"method": "grpo", "seed": "1", "step": "6"}
    assert _layout().metrics_before(later) == []
    layout = _layout(methods=GRPO, train=TRAIN | {"stop": {"coverage_below": 0.1}})
    assert layout.metrics_before(later | {"step": "2"}) == []
    assert layout.metrics_before(later) == [
        f"{layout.root}/train/grpo-s1/step{step}/metrics.parquet" for step in (2, 4)
    ]


def test_states_and_policies_that_no_job_needs_any_more_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = _layout(methods=GRPO)

    def states(*steps: int) -> list[str]:
        return [f"results/run/states/grpo-s1/step{step}.json" for step in steps]

    def policies(*steps: int) -> list[str]:
        return [f"results/run/policies/grpo-s1/step{step}.json" for step in steps]

    # Policies of the steps 4 and 8 are evaluated.
    removed = {
        step: layout.superseded_before({"method": "grpo", "seed": "1", "step": str(step)}) for step in (2, 4, 6, 8)
    }
    assert removed[2] == removed[4] == []
    assert sorted(removed[6]) == sorted(states(2) + policies(2))
    assert sorted(removed[8]) == sorted(states(2, 4) + policies(2))
    assert [str(end) for end in layout.kept_states() if end.seed == 1] == ["grpo-s1/step8"]

    monkeypatch.chdir(tmp_path)
    assert layout.superseded_at_the_end() == []
    for state in states(2, 4, 6):
        (tmp_path / state).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / state).touch()
    assert sorted(layout.superseded_at_the_end()) == sorted(states(2, 4) + policies(2))

    every = _layout(train=TRAIN | {"keep_state": "all"})
    assert every.superseded_before({"method": "grpo", "seed": "1", "step": "8"}) == []
    assert every.superseded_at_the_end() == []
    assert every.kept_states() == every.segments()


def test_samples_come_from_a_model_or_from_recorded_answers() -> None:
    layout = _layout(replay={"gpt": {"cross": "answers.jsonl"}})
    assert layout.recorded({"dataset": "train", "draw": "main", "plan": "refine"}) == []
    assert layout.recorded({"policy": "base", "dataset": "cross"}) == []
    assert layout.recorded({"policy": "gpt", "dataset": "cross"}) == "answers.jsonl"
    assert layout.sampling_gpus({"policy": "gpt", "dataset": "cross"}) == 0
    assert layout.sampling_gpus({"policy": "base", "dataset": "cross"}) == 1


def test_databases_are_those_of_the_toy_or_files_of_the_user_or_none(tmp_path: Path) -> None:
    mine = {"task": "sql", "source": "mine.jsonl", "databases": str(tmp_path)}
    maths = {"task": "math", "source": "maths.jsonl"}
    layout = _layout(datasets={"train": TOY, "cross": TOY, "mine": mine, "maths": maths})
    expected = {
        "train": (True, False, "results/run/toy/databases", "results/run/toy/questions/train.jsonl"),
        "mine": (False, True, str(tmp_path), "mine.jsonl"),
        "maths": (False, False, None, "maths.jsonl"),
    }
    for dataset, facts in expected.items():
        fields = {"dataset": dataset}
        found = layout.has_toy_databases(fields), layout.has_own_databases(fields)
        assert (*found, layout.database_folder(fields), layout.source(fields)) == facts
        assert layout.database_digest(fields) is None
    assert layout.database_folder({}) == "results/run/toy/databases", "the training set, without a wildcard"
