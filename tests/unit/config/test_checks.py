"""What must hold between the blocks of a configuration."""

import re
from typing import Any

import pytest
from configurations import RECORDED, demo, problems, put

from dphrl.config.load import load_config

PRIMARY, K2 = "evaluate.claims.primary[0]", {"divergence": "reverse_kl", "estimator": "k2"}
ENDPOINT = {"method": "dph_f", "against": "grpo", "relation": "higher", "metric": "pass@16", "dataset": "in_domain"}
MATHS = {"task": "math", "source": "x.jsonl"}


@pytest.mark.parametrize(
    ("path", "value", "where", "allowed"),
    [
        # Names.
        ("train_dataset", "trian", "train_dataset", "cross, in_domain, maths, train"),
        ("evaluate.datasets", ["in_domain", "corss"], "evaluate.datasets[1]", "cross, in_domain, maths, train"),
        ("evaluate.styles.maths", [], "evaluate.styles.maths", "sql, math"),
        ("evaluate.roles", {"train": "in_domain"}, "evaluate.roles.train", "in_domain, cross"),
        ("datasets.maths.task", "maths", "datasets.maths.task", "needs an entry under scoring.custom): sql, math"),
        ("sampling.evaluate.n_by_dataset", {"train": 8}, "sampling.evaluate.n_by_dataset.train", "in_domain, cross"),
        ("replay", {"base": {"corss": "x.jsonl"}}, "replay.base.corss", "cross, in_domain, maths, train"),
        # Policies.
        ("methods.base", {}, "methods.base", "any other name"),
        ("methods.GRPO", {}, "methods.GRPO", "any other name, apart from case"),
        ("checkpoints", {"grpo": "out"}, "checkpoints.grpo", "any other name"),
        ("replay", {"grpo": dict.fromkeys(["in_domain", "cross", "maths"], "x")}, "replay.grpo", "any other name"),
        ("replay", {"other": {"cross": "x.jsonl"}}, "replay.other", "also in_domain"),
        ("toy", None, "policy.base", "the folder of a base model"),
        # Datasets.
        ("toy", None, "datasets.train.source", "a block toy"),
        ("datasets.other", {"task": "sql", "source": "toy"}, "datasets.other.source", "datasets train, in_domain"),
        ("evaluate.datasets", ["cross", "cross"], "evaluate.datasets", "each set once"),
        ("partition.given", {"pef": "x.jsonl"}, "partition.given", "pef and exp"),
        # Sampling.
        ("evaluate.k", [1, 32], "evaluate.k", "at most 8"),
        ("partition.pef_min_correct", 9, "partition.pef_min_correct", "sampling.presample.n = 8"),
        ("prompts.max_tokens", 100, "train.max_tokens", "28 = engine.max_model_len - prompts.max_tokens"),
        ("hardware.token_budget", 64, "hardware.token_budget", "at least 112"),
        # Training.
        ("train.seeds", [1, 1], "train.seeds", "each seed once"),
        ("train", {"tis_cap": 2.0, "top_p": 0.9, "dtype": "float32"}, "train.tis_cap", "train.top_p 1"),
        ("train.segment_steps", 15, "train.segment_steps", "a divisor of train.eval_every = 16"),
        ("train.eval_every", 80, "train.eval_every", "train.steps = 48"),
        ("train.eval_every", [8, 64], "train.eval_every", "up to train.steps = 48"),
        ("train.prompts_per_step", 15, "train.mini_batches", "train.prompts_per_step = 15"),
        ("train.rehearsal_per_step", 31, "train.mini_batches", "train.rehearsal_per_step = 31"),
        ("hardware.ranks", 3, "hardware.ranks", "a divisor of train.prompts_per_step / train.mini_batches"),
        ("engine.dtype", "bfloat16", "engine.dtype", "train.dtype = float32"),
        ("methods.grpo.steps", 43, "methods.grpo.steps", "a multiple of train.segment_steps = 16"),
        ("methods.grpo.seeds", 2, "methods.grpo.seeds", "at most the number of train.seeds = 1"),
        ("methods.dph_f.topk_estimator", "sum", "methods.dph_f.topk_estimator", "null, or set"),
        ("methods.grpo.overlong_buffer", 5000, "methods.grpo.overlong_buffer", "0 to train.max_tokens"),
        # Keys of a method without an effect.
        ("methods.m", {"eta": 1}, "methods.m.eta", "only with divergence forward_kl or js"),
        ("methods.m", {"divergence": "forward_kl", "js_scale": 0.5}, "methods.m.js_scale", "only with divergence js"),
        ("methods.m", {"divergence": "reverse_kl", "estimator": "exact"}, "methods.m.estimator", "one of k3, k2"),
        ("methods.m", {"divergence": "mine.py:f", "alpha": 0.1}, "methods.m.alpha", "only with divergence alpha"),
        ("methods.m", {"divergence": "reverse_kl", "rehearse": "right"}, "methods.m.rehearse", "only with divergence"),
        ("methods.m", {"rows_per_question": 2}, "methods.m.rows_per_question", "only with divergence forward_kl or js"),
        ("methods.m", {"divergence": "js", "off_policy": "weight"}, "methods.m.off_policy", "weight is for reverse_kl"),
        ("methods.m", K2 | {"off_policy": "differentiate"}, "methods.m.off_policy", "differentiate is for reverse_kl"),
        ("methods.m", K2 | {"off_policy_cap": 2.0}, "methods.m.off_policy_cap", "null, or with off_policy"),
        # The primary endpoint.
        ("evaluate.claims.primary", [ENDPOINT | {"method": "base"}], f"{PRIMARY}.method", "a policy but the base"),
        ("evaluate.claims.primary", [ENDPOINT | {"against": "grop"}], f"{PRIMARY}.against", "base, grpo"),
        ("evaluate.claims.primary", [ENDPOINT | {"dataset": "train"}], f"{PRIMARY}.dataset", "in_domain, cross, maths"),
    ],
)
def test_a_contradiction_names_the_key_and_what_is_allowed(path: str, value: object, where: str, allowed: str) -> None:
    assert allowed in problems(put(demo(), path, value))[where].allowed


def test_a_primary_endpoint_names_a_method_another_policy_and_an_evaluation_set() -> None:
    assert load_config(put(demo(), "evaluate.claims.primary", [ENDPOINT])).evaluate.claims.primary


@pytest.mark.parametrize("engine", [{"name": "transformers"}, {"stages": {"refine": "transformers"}}])
def test_what_only_vllm_can_do_needs_it_in_every_stage(engine: dict[str, Any]) -> None:
    data = demo()
    parts = {**data["hardware"], "tensor_parallel": 2, "ranks": 2}
    spread = {**data, "engine": {**data["engine"], **engine}, "hardware": parts}
    assert "only vllm can spread" in problems(spread)["hardware.tensor_parallel"].allowed
    alike = {**data, "engine": {**data["engine"], **engine, "batch_invariant": True}}
    assert "only vllm has it" in problems(alike)["engine.batch_invariant"].allowed


def test_each_k_needs_a_set_with_as_many_samples() -> None:
    more = put(demo(), "sampling.evaluate.n_by_dataset", {"cross": 64})
    assert load_config(put(more, "evaluate.k", [1, 16, 64])).sampling.evaluate.samples("cross") == 64


def test_rehearsal_need_not_be_divisible_without_a_method_that_rehearses() -> None:
    alone = put(put(demo(), "train.rehearsal_per_step", 31), "methods", {"grpo": {"rollout_on": "all"}})
    assert load_config(alone).train.rehearsal_per_step == 31


@pytest.mark.parametrize("keys", [{"rehearse": "boundary"}, {"rows_per_question": 2}])
def test_stored_pre_samples_are_as_long_as_a_pass_and_need_a_division_by_them(keys: dict[str, Any]) -> None:
    data = put(demo(), "methods", {"m": {"divergence": "js", **keys}})
    assert load_config(data).methods["m"].stores_presamples
    given = {"pef": "x.jsonl", "exp": "y.jsonl"}
    problem = problems(put(put(data, "partition.given", given), "train.probe.prompts", 0))["partition.given"]
    assert "rows_per_question 1 in methods m" in problem.allowed
    longer = put(put(data, "hardware.token_budget", 112), "sampling.presample.max_tokens", 49)
    assert "113 = prompts.max_tokens + sampling.presample" in problems(longer)["hardware.token_budget"].allowed
    longer["methods"] = {"m": {"divergence": "js"}}
    load_config(longer)


@pytest.mark.parametrize(
    ("rehearse", "plan", "key", "value"),
    [("pef", "refine", "top_p", 0.95), ("pef", "refine", "temperature", 0.7), ("right", "presample", "top_p", 0.95)],
)
def test_top_k_estimators_need_stored_samples_of_the_softmax(rehearse: str, plan: str, key: str, value: float) -> None:
    data = put(put(demo(), "methods.dph_f.topk_estimator", "sum"), "methods.dph_f.rehearse", rehearse)
    data["reference"] = {"topk_logprobs": 8}
    for drawn in ("presample", "refine"):
        data["sampling"][drawn] |= {"top_p": 1.0, "temperature": 1.0}
    load_config(data)
    problem = problems(put(data, f"sampling.{plan}.{key}", value))["methods.dph_f.topk_estimator"]
    assert re.search(rf"sampling\.{plan}\..*{key} \({value}\)", problem.allowed)


def test_a_training_ends_by_its_coverage_where_pre_samples_show_that_of_the_base() -> None:
    stopped = put(demo(), "train.stop", {"coverage_below": 0.1})
    assert load_config(stopped).train.stop.coverage_below == 0.1
    divided = put(stopped, "partition.given", {"pef": "pef.jsonl", "exp": "exp.jsonl"})
    assert "no pre-samples" in problems(divided)["train.stop.coverage_below"].allowed


def test_a_run_of_recorded_answers_needs_no_model() -> None:
    assert not load_config(RECORDED).has_model
    assert "methods: {}" in problems(RECORDED | {"methods": {"grpo": {}}})["policy.base"].allowed
    assert "replay.base.spider" in problems(RECORDED | {"replay": {}})["policy.base"].allowed
    assert "no base model" in problems(RECORDED | {"checkpoints": {"trl": "out"}})["checkpoints"].allowed


def test_a_wrong_name_causes_no_second_problem() -> None:
    (problem,) = problems(put(RECORDED, "train_dataset", "spidre")).values()
    assert problem.nearest == "spider"


def test_a_name_may_be_of_a_policy_and_of_a_dataset() -> None:
    answers = {"spider": "answers.jsonl"}
    assert load_config(RECORDED | {"replay": {"base": answers, "spider": answers}}).replay["spider"] == answers


def test_a_run_without_methods_does_not_check_its_block_train() -> None:
    train = {"max_tokens": 4096, "dtype": "bfloat16", "eval_every": 7}
    assert load_config(demo() | {"methods": {}, "train": train}).train.eval_every == 7


def test_only_a_run_that_trains_needs_a_training_set() -> None:
    data = demo()
    del data["train_dataset"]
    assert "a name under datasets" in problems(data)["train_dataset"].allowed
    first, *_ = data["evaluate"]["datasets"]
    config = load_config(data | {"methods": {}})
    assert config.roles[first] == "in_domain"
    assert not config.presamples
