"""A slice changes when, and only when, something changes that its stage depends on."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config import slices as parts
from dphrl.config.blocks.data import ScoringConfig
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.config.errors import ConfigError
from dphrl.config.load import load_config
from dphrl.config.slices import canonical

DEFAULT = Path(__file__).resolve().parents[3] / "config" / "config.yaml"
DATA: dict[str, Any] = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def slices(change: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
    data = copy.deepcopy(DATA)
    if change is not None:
        change(data)
    config = load_config(data)
    return {name: parts.train(config, name) for name in config.methods}


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["train"].update(steps=80),
        lambda data: data["train"].update(segment_steps=10),
        lambda data: data["train"].update(eval_every=20),
        lambda data: data["train"].update(seeds=[1, 2]),
        lambda data: data["methods"].update(another={"divergence": "js"}),
        lambda data: data["methods"]["dph_f"].update(steps=120),
        lambda data: data["partition"].update(pef_min_correct=5),
        lambda data: data["report"].update(title="Another"),
        lambda data: data["hardware"].update(ranks=2, zero_stage=3, token_budget=4096, kv_cache_gib=2),
        lambda data: data.update(run="another"),
    ],
)
def test_what_training_does_not_depend_on_changes_no_slice(change: Callable[[dict[str, Any]], object]) -> None:
    after = slices(change)
    assert {name: after[name] for name in DATA["methods"]} == slices()


def test_the_answer_rule_of_a_set_is_in_its_own_slices_only() -> None:
    data = copy.deepcopy(DATA)
    before = load_config(data)
    name = next(name for name, one in before.datasets.items() if name != before.train_dataset)
    rule = "fenced"  # the embedded queries are bare
    data["datasets"][name]["answer"] = rule
    after = load_config(data)
    assert parts.scoring(after, name)["scorer"]["answer"] == rule
    assert parts.gold(after, name) != parts.gold(before, name)
    for part in (parts.scoring, parts.gold):
        assert part(after, before.train_dataset) == part(before, before.train_dataset)
    for method in before.methods:
        assert parts.train(after, method) == parts.train(before, method)


def test_a_methods_block_is_in_its_own_slice_only() -> None:
    before, after = slices(), slices(lambda data: data["methods"]["dph_f"].update(eta=0.5))
    assert {name for name in before if before[name] != after[name]} == {"dph_f"}


def test_a_common_setting_is_in_every_slice() -> None:
    before, after = slices(), slices(lambda data: data["train"].update(lr=1e-3))
    assert all(before[name] != after[name] for name in before)


def test_a_default_that_is_written_out_changes_nothing() -> None:
    assert slices(lambda data: data["train"].update(eps_low=0.2, dual_clip=3)) == slices()
    block = slices()["dph_js"]
    assert block["train"]["eps_low"] == 0.2
    assert block["method"]["l_cap"] == 3.0


def test_the_reward_repairs_operators_and_the_evaluation_leaves_it_to_the_comparison() -> None:
    def repairs(value: str | None) -> list[str]:
        data = copy.deepcopy(DATA)
        data["scoring"]["sql"].update({"repair": value} if value else {})
        config = load_config(data)
        other = next(
            name for name, one in config.datasets.items() if one.task == "sql" and name != config.train_dataset
        )
        scored = [parts.scoring(config, name) for name in (config.train_dataset, other)]
        scored.append(parts.train(config, next(iter(config.methods))))
        return [one["scorer"]["repair"] for one in scored]

    assert repairs(None) == ["always", "auto", "always"]
    assert repairs("never") == ["never"] * 3


def test_the_number_of_jobs_is_not_in_a_plans_slice() -> None:
    config, changed = load_config(DATA), copy.deepcopy(DATA)
    changed["sampling"]["presample"]["shards"] = 4
    changed["sampling"]["evaluate"]["n"] = 32
    other = load_config(changed)
    assert parts.sample(other, "base", "train", "presample") == parts.sample(config, "base", "train", "presample")
    assert parts.sample(other, "base", "cross", "evaluate") != parts.sample(config, "base", "cross", "evaluate")


def test_a_policy_that_is_drawn_hotter_has_its_temperature_and_no_greedy_response() -> None:
    config = load_config(DATA)
    cold, warm = (parts.sample(config, f"grpo-s1/step40{end}", "cross", "evaluate") for end in ("", "/t1.3"))
    assert warm == {**cold, "plan": {**cold["plan"], "temperature": 1.3, "greedy": False}}


def test_the_number_of_samples_of_a_set_is_in_its_own_slice_only() -> None:
    config, changed = load_config(DATA), copy.deepcopy(DATA)
    changed["sampling"]["evaluate"]["n_by_dataset"] = {"cross": 32}
    other = load_config(changed)
    plans = [(name, plan) for name in config.datasets for plan in ("presample", "refine", "evaluate")]
    before, after = ({pair: parts.sample(one, "base", *pair) for pair in plans} for one in (config, other))
    assert {pair for pair in plans if before[pair] != after[pair]} == {("cross", "evaluate")}
    plan = PlanConfig(**after["cross", "evaluate"]["plan"])
    assert plan.n == 32
    changed["sampling"]["evaluate"] |= {"n_by_dataset": {}, "n": 32}
    assert after["cross", "evaluate"] == parts.sample(load_config(changed), "base", "cross", "evaluate")
    for part in (parts.tables, parts.candidates, parts.report):
        assert part(other) == part(config)


def drawn(**engine: object) -> dict[tuple[str, ...], Any]:
    """The slices of everything that an engine draws, with these keys of the block `engine`."""
    config = load_config(DATA | {"engine": {**DATA["engine"], "name": "vllm", "stages": {}, **engine}})
    found = {("train", plan): parts.sample(config, "base", "train", plan) for plan in ("presample", "refine")}
    found |= {("cross", policy): parts.sample(config, policy, "cross", "evaluate") for policy in ("base", "grpo")}
    return found | {("training", method): parts.train(config, method) for method in config.methods}


@pytest.mark.parametrize(
    ("stage", "changed"),
    [
        ("presample", {("train", "presample")}),
        ("refine", {("train", "refine")}),
        ("evaluate", {("cross", "base"), ("cross", "grpo")}),
        ("rollouts", {("training", name) for name in DATA["methods"]}),
    ],
)
def test_the_engine_of_a_stage_is_in_the_slices_of_that_stage_only(stage: str, changed: set[tuple[str, ...]]) -> None:
    before, after = drawn(), drawn(stages={stage: "transformers"})
    assert {key for key in before if before[key] != after[key]} == changed
    assert {after[key]["engine"]["name"] for key in changed} == {"transformers"}
    assert drawn(stages={stage: "vllm"}) == before


def test_independence_of_the_batch_is_of_sampling_alone() -> None:
    """In training vLLM shares its process, whose matrix products and NCCL it would replace and restrict."""
    before, after = drawn(), drawn(batch_invariant=True)
    assert {key for key in before if before[key] != after[key]} == {key for key in before if key[0] != "training"}
    drawn(batch_invariant=True, stages={"rollouts": "transformers"})
    with pytest.raises(ConfigError, match="only vllm has it"):
        drawn(batch_invariant=True, stages={"evaluate": "transformers"})


def test_recorded_answers_depend_on_no_engine() -> None:
    recorded = DATA | {"replay": {"base": {"train": "answers.jsonl"}}}
    config, other = load_config(recorded), load_config(recorded | {"seed": 9, "engine": {**DATA["engine"]}})
    for plan, first in (("presample", 0), ("refine", 8)):
        found = parts.sample(config, "base", "train", plan)
        assert found == parts.sample(other, "base", "train", plan)
        assert found["engine"] == {"first": first, "name": "replay", "template": "plain"}
    # Without pre-samples the refinement takes the first recorded answers.
    partition = {"given": {"pef": "pef.jsonl", "exp": "exp.jsonl"}}
    train = {**DATA["train"], "probe": {"prompts": 0}}
    sampling = {**DATA["sampling"], "presample": {**DATA["sampling"]["presample"], "n": 4}}
    config = load_config(recorded | {"partition": partition, "train": train, "sampling": sampling})
    assert parts.sample(config, "base", "train", "refine")["engine"]["first"] == 0


def test_a_slice_names_what_its_stage_depends_on() -> None:
    def changed(part: Callable[[Any], Any], **blocks: dict[str, Any]) -> bool:
        data = copy.deepcopy(DATA)
        for name, block in blocks.items():
            data[name] |= block
        return part(load_config(data)) != part(load_config(DATA))

    assert changed(parts.candidates, partition={"pef_min_correct": 5})
    assert not changed(parts.candidates, partition={"on_reject": "discard"})
    assert changed(parts.partition, partition={"on_reject": "discard"})
    assert not changed(parts.partition, partition={"pef_min_correct": 5})
    assert changed(lambda c: parts.scoring(c, "cross"), scoring={"sql": {**DATA["scoring"]["sql"], "max_rows": 5}})
    assert not changed(lambda c: parts.scoring(c, "maths"), scoring={"sql": {**DATA["scoring"]["sql"], "max_rows": 5}})
    assert not changed(lambda c: parts.scoring(c, "cross"), scoring={"sql": {**DATA["scoring"]["sql"], "workers": 7}})
    assert changed(lambda c: parts.prompts(c, "cross"), prompts={"max_tokens": 60})
    assert not changed(lambda c: parts.evaluate(c, "cross"), evaluate={"k": [1, 2, 16]})
    assert changed(parts.tables, evaluate={"k": [1, 2, 16]})
    kept = {**DATA["datasets"], "cross": {**DATA["datasets"]["cross"], "drop": []}}
    assert changed(lambda c: parts.gold(c, "cross"), datasets=kept)
    for part in (parts.gold, parts.prompts):
        assert not changed(lambda c, part=part: part(c, "train"), datasets=kept)
    for part in (parts.scoring, parts.prompts):
        assert not changed(lambda c, part=part: part(c, "cross"), datasets=kept)
    custom = {"custom": {"mine": {"source": "here.py", "options": {"case": True}}}}
    own = {**DATA["datasets"], "cross": {"task": "mine", "source": "x.jsonl"}}
    assert "here.py" not in repr(parts.scoring(load_config(DATA | {"scoring": custom, "datasets": own}), "cross"))


def test_a_block_can_be_read_back_from_its_slice() -> None:
    config = load_config(DATA)
    assert load_config(canonical(config)) == config
    for name, method in config.methods.items():
        block = parts.train(config, name)
        assert MethodConfig.model_validate(block["method"]) == method
        scoring = {"sql": block["scorer"] | {"workers": 1, "repair": config.scoring.sql.repair}}
        assert ScoringConfig.model_validate(scoring).sql == config.scoring.sql
        schedule = {"steps": 40, "segment_steps": 20, "eval_every": 40, "seeds": [1]}
        assert TrainConfig.model_validate(block["train"] | schedule) == config.train
    plan = parts.sample(config, "base", "train", "refine")["plan"]
    assert PlanConfig.model_validate(plan).model_dump() == config.sampling.refine.model_dump()


def test_a_canonical_block_is_sorted_and_of_json_types() -> None:
    config = load_config(DATA)
    assert repr(canonical({"b": 1, "a": (1.0, None)})) == "{'a': [1.0, None], 'b': 1}"
    assert canonical({"block": config.partition}) == canonical({"block": config.partition.model_dump()})
    assert repr(canonical(config.reference)) == "{'topk_logprobs': 0}"


def turned(value: Any) -> Any:
    """The same value with the keys in another order at every level, and tuples in place of lists."""
    if isinstance(value, dict):
        return {key: turned(inner) for key, inner in reversed(value.items())}
    return tuple(map(turned, value)) if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_the_repr_of_a_canonical_block_depends_on_its_values_alone(data: dict[str, Any]) -> None:
    # Snakemake compares params by repr.
    assert repr(canonical(data)) == repr(canonical(turned(data)))
    assert canonical(data) == data
