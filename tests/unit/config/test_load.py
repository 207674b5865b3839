"""A wrong configuration is refused; the error names the key, the given value, the allowed ones, the nearest key."""

import copy
import time
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import ValidationError

from dphrl.config import slices
from dphrl.config.blocks.data import FieldName
from dphrl.config.checks import notices, problems_between_blocks
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem
from dphrl.config.files import read_yaml
from dphrl.config.keys import known_paths
from dphrl.config.load import check_files, load_config, read_config
from dphrl.tasks.fields import NAMES

ROOT = Path(__file__).resolve().parents[3]
DEFAULT = ROOT / "config" / "config.yaml"
MISSING = object()


@pytest.fixture
def data() -> dict[str, Any]:
    data = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
    # The tests take other methods, and folders without the shipped base.
    del data["evaluate"]["claims"], data["policy"]["base"]
    return data


ENDPOINT = {"method": "dph_f", "against": "grpo", "relation": "higher", "metric": "pass@16", "dataset": "in_domain"}


def put(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    *parents, last = path.split(".")
    block = changed
    for parent in parents:
        block = block.setdefault(parent, {})
    if value is MISSING:
        del block[last]
    else:
        block[last] = value
    return changed


def problems(data: Any) -> dict[str, Problem]:
    with pytest.raises(ConfigError) as caught:
        load_config(data)
    for problem in caught.value.problems:
        assert str(problem) in str(caught.value)
    return {problem.path: problem for problem in caught.value.problems}


def test_a_value_that_the_file_lacks_is_called_a_default(data: dict[str, Any], tmp_path: Path) -> None:
    fewer = put(put(data, "evaluate.k", MISSING), "sampling.evaluate.n", 4)
    assert str(problems(fewer)["evaluate.k"]).startswith("evaluate.k\n  default: (1, 2, 4, 8, 16)\n")
    assert str(problems(put(fewer, "evaluate.k", [1, 8]))["evaluate.k"]).startswith("evaluate.k\n  given:   (1, 8)")
    without = put({**data, "engine": {"dtype": "float32"}}, "policy.base", "base")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/config.json").write_text('{"max_position_embeddings": 64}')
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(without), tmp_path)
    assert "engine.max_model_len\n  default: 20480\n" in str(caught.value)
    assert "policy.base\n  given:   'base'\n" in str(caught.value)


def test_the_embedded_default_is_valid() -> None:
    config = read_config(DEFAULT)
    assert config.run == "demo"
    assert config.methods["dph_js"].js_scale == 1.0


def test_an_unknown_key_names_path_given_allowed_and_nearest(data: dict[str, Any]) -> None:
    found = problems(put(data, "train.lr_", 3))["train.lr_"]
    assert found.value == "lr_: 3"
    assert found.allowed.startswith("no such key; known here: betas, ")
    assert found.nearest == "train.lr"


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("trian_dataset", "train_dataset"),
        ("methods.grpo.eps_hi", "methods.grpo.eps_high"),
        ("evaluate.dataset", "evaluate.datasets"),
        ("steps", "train.steps"),
        ("prompts_per_step", "train.prompts_per_step"),
        ("partition.on_rejct", "partition.on_reject"),
        ("methods.dph_f.et", "methods.dph_f.eta"),
        ("datasets.train.sorce", "datasets.train.source"),
        ("train.presample", "sampling.presample"),
        ("zzzzzzzz", None),
    ],
)
def test_the_nearest_key_is_looked_for_in_the_block_and_then_everywhere(
    data: dict[str, Any], path: str, nearest: str | None
) -> None:
    assert problems(put(data, path, 1))[path].nearest == nearest


@pytest.mark.parametrize(
    "path",
    ["train.ranks", "train.token_budget", "engine.kv_cache_gib", "engine.tensor_parallel", "reference.token_budget"],
)
def test_a_key_that_moved_is_named_with_its_new_place(data: dict[str, Any], path: str) -> None:
    found = problems(put(data, path, 2))
    assert found[path].allowed == f"no such key: moved to hardware.{path.rpartition('.')[2]}"


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("methods.grpo.online", "methods.grpo.rollout_on"),
        ("methods.grpo.refills", "methods.grpo.dynamic_sampling_rounds"),
        ("methods.dph_f.topk", "methods.dph_f.topk_estimator"),
        ("train.epochs", "train.ppo_epochs"),
        ("reference.top_k", "reference.topk_logprobs"),
    ],
)
def test_a_renamed_key_is_named_with_its_new_name(data: dict[str, Any], path: str, new: str) -> None:
    assert problems(put(data, path, 2))[path].allowed == f"no such key: renamed to {new}"


@pytest.mark.parametrize("path", sorted(known for known in known_paths() if "<" not in known and "[" not in known))
def test_no_block_takes_an_unknown_key(data: dict[str, Any], path: str) -> None:
    block, _, _ = path.rpartition(".")
    unknown = f"{block}.not_a_key".removeprefix(".")
    # A supervised start without its source is another problem.
    assert set(problems(put(data, unknown, 1))) - {"policy.supervised.source"} == {unknown}


@pytest.mark.parametrize(
    ("path", "value", "allowed", "nearest"),
    [
        ("partition.on_reject", "explor", "'explore' or 'discard'", "explore"),
        ("train.dtype", "float16", "'float32' or 'bfloat16'", "bfloat16"),
        ("engine.dtype", "float16", "'float32' or 'bfloat16'", "bfloat16"),
        ("datasets.train.comparison", "loose", "'spider', 'bird' or 'strict'", None),
        ("train.steps", "many", "a valid integer", None),
        ("sampling.presample.n", -4, "greater than or equal to 1", None),
        ("evaluate.k", 8, "a list: [8]", None),
        ("train.seeds", 1, "a list: [1]", None),
        ("hardware.zero_stage", 4, "0, 1, 2 or 3", None),
        ("train.lr", "fast", "a valid number", None),
        ("train.lr", -1, "greater than 0", None),
        ("train.lr", float("nan"), "a finite number", None),
        ("train.steps", True, "a number, not true or false", None),
        ("train.dual_clip", False, "a number, not true or false", None),
        ("train.seeds", [1, 1], "each seed once", None),
        ("train.seeds", [], "at least 1 item", None),
        ("sampling.refine.n", 2, "1", None),
        ("sampling.presample.greedy", True, "False", None),
        ("methods.grpo.divergence", "jss", "'forward_kl', 'js', 'alpha'", "js"),
        ("prompts", [], "a block of keys", None),
        ("engine.name", "transformer", "'vllm' or 'transformers'", "transformers"),
        ("engine.stages.evaluate", "vlm", "'vllm' or 'transformers'", "vllm"),
        ("engine.stages.rollout", "vllm", "'presample', 'refine', 'evaluate' or 'rollouts'", "rollouts"),
        ("run", "../up", "a name of letters, digits, ., _ and -, a letter or digit first", None),
        ("run", "my run", "a name of letters, digits, ., _ and -, a letter or digit first", None),
        ("run", MISSING, "this key is required", None),
        ("datasets.train.task", MISSING, "this key is required", None),
    ],
)
def test_a_wrong_value_names_what_is_allowed(
    data: dict[str, Any], path: str, value: object, allowed: str, nearest: str | None
) -> None:
    found = problems(put(data, path, value))
    problem = found.get(path) or found[path.rpartition(".")[0]]
    assert allowed in problem.allowed
    assert problem.nearest == nearest


@pytest.mark.parametrize(
    ("path", "value", "where", "allowed"),
    [
        ("train_dataset", "trian", "train_dataset", "cross, in_domain, maths, train"),
        ("evaluate.datasets", ["in_domain", "corss"], "evaluate.datasets[1]", "cross, in_domain, maths, train"),
        ("evaluate.styles.maths", [], "evaluate.styles.maths", "sql, math"),
        ("evaluate.k", [1, 32], "evaluate.k", "each at most 16, what sampling.evaluate draws of in_domain"),
        ("sampling.evaluate.n_by_dataset", {"corss": 8}, "sampling.evaluate.n_by_dataset.corss", "in_domain, cross"),
        ("sampling.evaluate.n_by_dataset", {"train": 8}, "sampling.evaluate.n_by_dataset.train", "in_domain, cross"),
        ("train.segment_steps", 15, "train.segment_steps", "train.eval_every = 40, for instance 5, 8, 10, 20"),
        ("datasets.cross.answer", "boxed", "datasets.cross.answer", "one of fenced, bare for task sql"),
        ("methods.grpo.steps", 43, "methods.grpo.steps", "a multiple of train.segment_steps = 20"),
        ("train.eval_every", 30, "train.eval_every", "train.steps = 40"),
        ("train.eval_every", 80, "train.eval_every", "train.steps = 40"),
        ("train.prompts_per_step", 15, "train.mini_batches", "train.prompts_per_step = 15"),
        ("train.mini_batches", 3, "train.mini_batches", "train.rehearsal_per_step = 32, for instance 1, 2, 4"),
        ("train.rehearsal_per_step", 31, "train.mini_batches", "train.rehearsal_per_step = 31"),
        ("partition.pef_min_correct", 9, "partition.pef_min_correct", "sampling.presample.n = 8"),
        ("evaluate.hotter", [1.0, 1.3], "evaluate.hotter", "above sampling.evaluate.temperature = 1"),
        *(
            ("evaluate.claims.primary", [ENDPOINT | changes], f"evaluate.claims.primary[0].{key}", allowed)
            for changes, key, allowed in (
                ({"metric": "pass@32"}, "metric", "with one of evaluate.k up to the 16 samples of in_domain"),
                ({"metric": "pass@3"}, "metric", "with one of evaluate.k"),
                ({"method": "base"}, "method", "another policy than the base and than against"),
                ({"method": "grpo"}, "method", "another policy than the base and than against"),
            )
        ),
        ("datasets.overlap", {"task": "math", "source": "x.jsonl"}, "datasets.overlap", "gold/overlap.parquet"),
        ("prompts.max_tokens", 100, "train.max_tokens", "28 = engine.max_model_len - prompts.max_tokens"),
        ("hardware.token_budget", 64, "hardware.token_budget", "at least 112"),
        ("engine.dtype", "bfloat16", "engine.dtype", "train.dtype = float32"),
        ("toy", None, "datasets.train.source", "a block toy"),
        ("toy", None, "policy.base", "the folder of a base model"),
        ("methods.base", {}, "methods.base", "any other name: base is the policy before training"),
        ("methods.GRPO", {}, "methods.GRPO", "a name that differs from grpo by more than case"),
        ("checkpoints", {"Base": "model"}, "checkpoints.Base", "a name that differs from base by more than case"),
        ("datasets.Train", {"task": "math", "source": "x.jsonl"}, "datasets.Train", "differs from train by more"),
        ("methods.a-b", {}, "methods.a-b", "a name of letters, digits and _, a letter first"),
        ("datasets.my set", {"task": "sql", "source": "x.jsonl"}, "datasets.my set", "a name of letters"),
        ("datasets.other", {"task": "sql", "source": "toy"}, "datasets.other.source", "the toy has the datasets train"),
        ("datasets.maths.task", "maths", "datasets.maths.task", "a task: sql, math"),
        ("datasets.maths.comparison", "bird", "datasets.maths.comparison", "only for task sql"),
        ("scoring.custom", {"sql": {"source": "x.py"}}, "scoring.custom.sql", "that task has a scorer"),
        ("methods.grpo.seeds", 2, "methods.grpo.seeds", "at most the number of train.seeds = 1"),
        ("checkpoints", {"grpo": "out"}, "checkpoints.grpo", "the run has another policy of this name"),
        ("replay", {"grpo": {"cross": "x.jsonl"}}, "replay.grpo", "methods has a policy of this name"),
        ("replay", {"base": {"corss": "x.jsonl"}}, "replay.base.corss", "cross, in_domain, maths, train"),
        ("replay", {"other": {"cross": "x.jsonl"}}, "replay.other", "also in_domain"),
    ],
)
def test_what_must_hold_between_blocks(
    data: dict[str, Any], path: str, value: object, where: str, allowed: str
) -> None:
    assert allowed in problems(put(data, path, value))[where].allowed


@pytest.mark.parametrize("engine", [{"name": "transformers"}, {"stages": {"refine": "transformers"}}])
def test_what_only_vllm_can_do_needs_it_in_every_stage(data: dict[str, Any], engine: dict[str, Any]) -> None:
    parts = {**data["hardware"], "tensor_parallel": 2, "ranks": 2}
    spread = {**data, "engine": {**data["engine"], **engine}, "hardware": parts}
    assert "only vllm can spread" in problems(spread)["hardware.tensor_parallel"].allowed
    alike = {**data, "engine": {**data["engine"], **engine, "batch_invariant": True}}
    assert "only vllm has it" in problems(alike)["engine"].allowed


def test_only_policies_with_weights_can_be_drawn_hotter(data: dict[str, Any]) -> None:
    hot = put(data, "evaluate.hotter", [1.3])
    assert load_config(hot).evaluate.hotter == (1.3,)
    assert "no policy but the base" in problems(put(hot, "methods", {}))["evaluate.hotter"].allowed


def test_each_k_needs_a_set_with_as_many_samples_and_each_set_a_k(data: dict[str, Any]) -> None:
    more = put(data, "sampling.evaluate.n_by_dataset", {"cross": 64})
    assert load_config(put(more, "evaluate.k", [1, 16, 64])).sampling.evaluate.samples("cross") == 64
    assert "with a k of at most 16, what" in problems(put(more, "evaluate.k", [32, 64]))["evaluate.k"].allowed


def test_rehearsal_need_not_be_divisible_without_a_method_that_rehearses(data: dict[str, Any]) -> None:
    alone = put(put(data, "train.rehearsal_per_step", 31), "methods", {"grpo": {"rollout_on": "all"}})
    assert load_config(alone).train.rehearsal_per_step == 31


def test_a_key_of_a_method_that_would_have_no_effect_is_refused(data: dict[str, Any]) -> None:
    assert (
        "only with divergence forward_kl or js"
        in problems(put(data, "methods.grpo.eta", 1))["methods.grpo.eta"].allowed
    )
    assert "methods.dph_f.js_scale" in problems(put(data, "methods.dph_f.js_scale", 0.5))
    assert "methods.dph_js.estimator" in problems(put(data, "methods.dph_js.estimator", "k1"))


@pytest.mark.parametrize(
    ("method", "key", "allowed"),
    [
        (
            {"divergence": "forward_kl", "off_policy": "weight"},
            "off_policy",
            "only with divergence reverse_kl or js_def",
        ),
        (
            {"divergence": "reverse_kl", "estimator": "k2", "off_policy": "differentiate"},
            "off_policy",
            "differentiate is for reverse_kl k3, not reverse_kl k2",
        ),
        (
            {"divergence": "reverse_kl", "estimator": "to_go", "off_policy": "weight"},
            "off_policy",
            "definition exact or js_definition k3 or reverse_kl k2 or reverse_kl k3, not reverse_kl to_go",
        ),
        (
            {"divergence": "js_definition", "off_policy": "differentiate"},
            "off_policy",
            "is for reverse_kl k3, not js_def",
        ),
        ({"divergence": "reverse_kl", "off_policy_cap": 2.0}, "off_policy_cap", "null, or with off_policy"),
    ],
)
def test_an_off_policy_form_that_a_loss_does_not_have_is_refused(
    data: dict[str, Any], method: dict[str, Any], key: str, allowed: str
) -> None:
    assert allowed in problems(put(data, "methods", {"m": method}))[f"methods.m.{key}"].allowed


@pytest.mark.parametrize(("key", "value"), [("top_p", 0.95), ("temperature", 0.7)])
def test_top_k_estimators_need_stored_samples_of_the_softmax(data: dict[str, Any], key: str, value: float) -> None:
    some = put(put(data, "methods.dph_f.topk_estimator", "sum"), "reference", {"topk_logprobs": 8})
    exact = put(put(some, "sampling.refine.top_p", 1.0), "sampling.refine.temperature", 1.0)
    assert load_config(exact).methods["dph_f"].topk_estimator == "sum"
    problem = problems(put(exact, f"sampling.refine.{key}", value))["methods.dph_f.topk_estimator"]
    assert f"{key} ({value})" in problem.allowed


def test_all_problems_are_listed_at_once(data: dict[str, Any]) -> None:
    found = problems(put(put(put(data, "train.lr_", 1), "seed", -1), "methods.grpo.rollout_on", "some"))
    assert set(found) == {"train.lr_", "seed", "methods.grpo.rollout_on"}


def test_a_number_written_without_a_point_is_a_number(data: dict[str, Any]) -> None:
    assert yaml.safe_load("1e-6") == "1e-6"
    assert load_config(put(data, "train.lr", "1e-6")).train.lr == 1e-6


def test_what_was_read_cannot_change(data: dict[str, Any]) -> None:
    config = load_config(data)
    with pytest.raises(ValidationError):
        config.seed = 2  # type: ignore[misc]


def test_the_divergence_sets_the_papers_weight(data: dict[str, Any]) -> None:
    methods = load_config(
        put(data, "methods", {"f": {"divergence": "forward_kl"}, "j": {"divergence": "js"}, "n": {}})
    ).methods
    assert (methods["f"].eta, methods["j"].eta, methods["n"].eta) == (0.01, 0.2, 0.0)


def test_a_function_of_the_user_has_the_keys_of_a_rehearsed_divergence(data: dict[str, Any]) -> None:
    place = "folder/mine.py:f"
    method = {"divergence": place, "advantage": "mine.py:g", "l_cap": 2.0}
    mine = load_config(put(data, "methods", {"mine": method})).methods["mine"]
    assert (mine.rehearses, mine.needs_reference_model, mine.eta, mine.curvature) == (True, False, 0.01, None)
    assert mine.functions == {"divergence": place, "advantage": "mine.py:g"}
    assert mine.files == ["folder/mine.py", "mine.py"]
    refused = problems(put(data, "methods", {"m": {"divergence": place, "alpha": 0.1}}))
    assert "only with divergence alpha, not FILE.py:NAME" in refused["methods.m.alpha"].allowed
    refused = problems(put(data, "methods", {"m": {"advantage": place, "advantage_std": False}}))
    assert "no effect with `advantage`" in refused["methods.m.advantage_std"].allowed
    assert (
        "a function in a Python file"
        in problems(put(data, "methods.grpo.advantage", "mine:f"))["methods.grpo.advantage"].allowed
    )


@pytest.mark.parametrize("empty", [None, {}])
def test_an_empty_configuration_says_what_is_required(empty: Any) -> None:
    assert "required are run, datasets" in problems(empty)[""].allowed


def test_a_configuration_that_is_a_list_is_refused() -> None:
    assert "a block of keys" in problems([1, 2])[""].allowed


@pytest.mark.parametrize(("text", "given"), [(None, "No such file"), ("a: [1", "while parsing"), ("", "empty")])
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str | None, given: str) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=given):
        read_config(path)


RECORDED = {
    "run": "recorded",
    "datasets": {"spider": {"task": "sql", "source": "spider/dev.json"}},
    "train_dataset": "spider",
    "methods": {},
    "evaluate": {"datasets": ["spider"]},
    "replay": {"base": {"spider": "answers.jsonl"}},
}


def test_a_run_of_recorded_answers_needs_no_model() -> None:
    config = load_config(RECORDED)
    assert not config.has_model
    assert "methods: {}" in problems(RECORDED | {"methods": {"grpo": {}}})["policy.base"].allowed
    assert "replay.base.spider" in problems(RECORDED | {"replay": {}})["policy.base"].allowed


def test_effective_weight_and_strength_of_every_divergence_are_stated(data: dict[str, Any]) -> None:
    what, *separate = notices(load_config(data))
    assert "how strongly it holds the policy near the base" in what
    assert what.endswith("(docs/method.md).")
    assert [line.split(" weighs ")[1].split()[0] for line in separate] == ["0.1", "0.2"]
    methods = {
        "rkl": {"rollout_on": "all", "divergence": "reverse_kl"},
        "dph_f": {"divergence": "forward_kl"},
        "dph_js": {"divergence": "js"},
        "definition": {"divergence": "js_definition"},
        "halves": {"divergence": "js_definition", "js_beta": 0.1},
        "grpo": {},
    }
    # METHOD's published strengths, here too at 32 stored responses to 256 rollouts: .01, .00125 and .0125.
    expected = {
        "rkl": [("0.01", "0.01")],
        "dph_f": [("0.00125", "0.00125")],
        "dph_js": [("0.025", "0.0125")],
        "definition": [("0.025", "0.00625")],
        "halves": [("0.025", "0.00625"), ("0.02", "0.005")],
    }
    found: dict[str, list[tuple[str, str]]] = {}
    for line in list(notices(load_config(put(put(data, "methods", methods), "train.rehearsal_norm", "joint"))))[1:]:
        name, _, rest = line.partition(": ")
        words = rest.split(" weighs ")[1].split()
        found.setdefault(name, []).append((words[0], words[-1]))
    assert found == expected
    _, line = notices(
        load_config(put(put(data, "methods", {"m": {"divergence": "js"}}), "train.rehearsal_norm", "tokens"))
    )
    assert " weighs 0.025 x (mean length of stored responses / of rollouts) of the policy loss" in line
    found = list(notices(load_config(put(put(data, "train.top_p", 0.95), "methods", {"grpo": {}}))))
    assert ["supports differ" in line for line in found] == [True]
    assert not list(notices(load_config(RECORDED)))


@pytest.mark.parametrize(
    ("datasets", "seen"),
    [
        ({"train": "a.jsonl", "test": "b.jsonl"}, None),
        ({"train": "a.jsonl"}, "(train)"),
        ({"train": "a.jsonl", "test": "b.jsonl", "again": "a.jsonl"}, "(again)"),
    ],
)
def test_evaluation_on_the_training_questions_is_stated(datasets: dict[str, str], seen: str | None) -> None:
    evaluated = [name for name in datasets if name != "train"] or ["train"]
    blocks = {
        "run": "r",
        "policy": {"base": "b"},
        "datasets": {name: {"task": "math", "source": source} for name, source in datasets.items()},
        "train_dataset": "train",
        "evaluate": {"datasets": evaluated},
    }
    config = load_config(blocks)
    lines = [line for line in notices(config) if line.startswith("evaluate.datasets has the training")]
    assert len(lines) == (seen is not None)
    assert seen is None or seen in lines[0]
    assert slices.report(config)["report"]["notes"] == lines


def test_what_no_interval_holds_is_stated_where_seeds_share_their_presamples(data: dict[str, Any]) -> None:
    def stated(config: Config) -> list[str]:
        return [line for line in notices(config) if "these pre-samples only" in line]

    for path, value, several in (
        ("train.draws", "per_seed", False),
        ("train.draws", "shared", True),
        ("replay", {"base": {"train": "answers.jsonl"}}, True),
    ):
        config = load_config(put(put(data, "train.seeds", [1, 2]), path, value))
        assert len(stated(config)) == several
        assert [line for line in slices.report(config)["report"]["notes"] if line in stated(config)] == stated(config)
    assert stated(load_config(put(data, "train.draws", "shared"))) == []


def test_every_field_of_a_row_can_be_renamed() -> None:
    assert set(get_args(FieldName)) == set(NAMES)


def test_trackers_without_their_package_are_named(
    data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = load_config(put(data, "train.trackers", ["tensorboard", "wandb"]))
    monkeypatch.setattr("dphrl.config.load.find_spec", {"tensorboard": True, "wandb": None}.get)
    with pytest.raises(ConfigError, match=r"train.trackers\n(.*\n)+.*pip install wandb") as caught:
        check_files(tracked, tmp_path)
    assert [problem.path for problem in caught.value.problems] == ["train.trackers"]


def test_databases_are_next_to_the_source_unless_stated_otherwise() -> None:
    config = load_config(RECORDED)
    assert config.datasets["spider"].database_folder == "spider/database"
    elsewhere = {"spider": RECORDED["datasets"]["spider"] | {"databases": "db"}}  # type: ignore[index]
    assert load_config(RECORDED | {"datasets": elsewhere}).datasets["spider"].database_folder == "db"


def test_files_that_are_named_must_be_there(data: dict[str, Any], tmp_path: Path) -> None:
    check_files(load_config(data), tmp_path)
    real = put(data, "policy", {"base": "model", "supervised": {"source": "learned.jsonl", "steps": 1}})
    real["datasets"]["train"]["source"] = "rows.jsonl"
    real["replay"] = {"base": {"train": "answers.jsonl"}}
    real["scoring"]["custom"] = {"mine": {"source": "mine.py"}}
    real["checkpoints"] = {"trl": ["model", "out/trl/2"]}
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(real), tmp_path)
    assert [p.path for p in caught.value.problems] == [
        "datasets.train.source",
        "policy.supervised.source",
        "replay.base.train",
        "scoring.custom.mine.source",
        "datasets.train.databases",
        "policy.base",
        "checkpoints.trl",
        "checkpoints.trl",
    ]
    for name in ("model", "database", "out/trl/2"):
        (tmp_path / name).mkdir(parents=True)
    for name in (
        "model/config.json",
        "out/trl/2/config.json",
        "model/tokenizer.json",
        "rows.jsonl",
        "learned.jsonl",
        "answers.jsonl",
        "mine.py",
    ):
        (tmp_path / name).touch()
    check_files(load_config(real), tmp_path)


def test_a_scorer_file_registers_the_task_that_names_it(data: dict[str, Any], tmp_path: Path) -> None:
    config = load_config(put(data, "scoring.custom", {"mine": {"source": "mine.py"}}))
    (tmp_path / "mine.py").write_text("@scoring.register(\n    'yours')\nclass Yours: ...\n")
    with pytest.raises(ConfigError, match=r"scoring.custom.mine\n.*\n.*a task that mine.py registers: yours"):
        check_files(config, tmp_path)
    for text in ("@register('yours')\nclass Yours: ...\n@register(\"mine\")\nclass Mine: ...\n", "@register(NAME)"):
        (tmp_path / "mine.py").write_text(text)
        check_files(config, tmp_path)


def test_a_name_that_is_not_there_causes_no_second_problem() -> None:
    (problem,) = problems(put(RECORDED, "train_dataset", "spidre")).values()
    assert problem.nearest == "spider"


def test_a_name_may_be_of_a_policy_and_of_a_dataset() -> None:
    answers = {"spider": "answers.jsonl"}
    assert load_config(RECORDED | {"replay": {"base": answers, "spider": answers}}).replay["spider"] == answers


def test_sampling_only_needs_no_train_block(data: dict[str, Any]) -> None:
    train = {"max_tokens": 4096, "dtype": "bfloat16", "eval_every": 7}
    assert problems_between_blocks(load_config(data | {"methods": {}, "train": train})) == []


@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes((mark + yaml.safe_dump(RECORDED)).replace("\n", "\r\n").encode())
    assert read_config(file).run == "recorded"


def files_refused(data: dict[str, Any], folder: Path, base: str = "base", **files: str) -> str:
    """The error about the files of a configuration whose base is a folder with these files."""
    (folder / "base").mkdir()
    for name, text in files.items():
        (folder / "base" / f"{name}.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(put(data, "policy.base", base)), folder)
    return str(caught.value)


def test_a_missing_folder_is_answered_with_the_other_reading(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    found = files_refused(data, tmp_path, "models/Llama-3.1-8B")
    assert "a folder that holds a Hugging Face model" in found
    assert "or hf://ORG/NAME: a model of the hub" in found


POSITIONS = '"max_position_embeddings": 64'


@pytest.mark.parametrize("config", [f"{{{POSITIONS}}}", f'{{"text_config": {{{POSITIONS}}}}}'])
def test_more_tokens_than_the_model_has_positions(data: dict[str, Any], tmp_path: Path, config: str) -> None:
    found = files_refused(data, tmp_path, config=config, tokenizer="{}")
    assert "engine.max_model_len\n  given:   128\n  allowed: at most 64, the positions of the model" in found


def test_gpus_that_share_an_engine_divide_the_attention_heads(data: dict[str, Any], tmp_path: Path) -> None:
    spread = {**data, "engine": {**data["engine"], "name": "vllm", "stages": {}}}
    spread["hardware"] = {**data["hardware"], "tensor_parallel": 4, "ranks": 4}
    refusal = files_refused(spread, tmp_path, config='{"num_attention_heads": 14}', tokenizer="{}")
    assert "hardware.tensor_parallel\n  given:   4\n  allowed: a number that divides the model's 14 heads" in refusal


def test_positions_that_a_model_extends_are_left_to_the_engine(data: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    extended = f'{{{POSITIONS}, "rope_scaling": {{"type": "yarn", "factor": 4.0}}}}'
    (tmp_path / "base/config.json").write_text(extended)
    (tmp_path / "base/tokenizer.json").write_text("{}")
    check_files(load_config(put(data, "policy.base", "base")), tmp_path)


def test_a_base_without_its_files_is_refused_at_the_start(data: dict[str, Any], tmp_path: Path) -> None:
    assert "with the tokenizer of the model too" in files_refused(data, tmp_path, config="{}")
    (tmp_path / "other").mkdir()
    assert "config.json" in files_refused(data, tmp_path / "other", "nowhere")


def test_a_file_that_is_missing_is_named_with_the_folder_it_is_looked_for_in(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(RECORDED), tmp_path)
    assert {"datasets.spider.source", "replay.base.spider"} <= {problem.path for problem in caught.value.problems}
    assert f"a file that exists (paths are relative to {tmp_path})" in str(caught.value)


@pytest.mark.parametrize("name", ["{split}", "a{b}c", "<results>", "models/{x}/7b"])
def test_a_path_that_snakemake_would_replace_is_refused(tmp_path: Path, name: str) -> None:
    replaying = RECORDED | {"policy": {"base": name}, "datasets": {"spider": {"task": "math", "source": name}}}
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(replaying), tmp_path)
    refused = [problem.path for problem in caught.value.problems if "which Snakemake would replace" in problem.allowed]
    assert refused == ["datasets.spider.source", "policy.base"]


LISTS = ", ".join(["&b0 [x, x, x, x, x, x, x, x, x]", *(f"&b{n} [{f'*b{n - 1}, ' * 9}]" for n in range(1, 12))])
BLOCKS = "".join(f", k{n}: &d{n} {{a: *d{n - 1}, b: *d{n - 1}, c: *d{n - 1}}}" for n in range(1, 20))
BOMBS = {"lists": f"[{LISTS}]", "blocks": f"{{k0: &d0 {{a: x, b: x}}{BLOCKS}}}"}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("key", ["zzz", "report.notes", "scoring.custom", "datasets.more", "replay", "methods", "run"])
def test_aliases_that_repeat_each_other_are_refused_in_a_moment(data: dict[str, Any], bomb: str, key: str) -> None:
    start = time.process_time()
    found = problems(put(data, key, yaml.safe_load(BOMBS[bomb])))
    assert found[key.partition(".")[0]].value == "more than 100000 values"
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "loop", ["&a [*a]", "&a {b: *a}", "&a {b: [1, {c: *a}]}", "&a [*a, *a, *a]", "[" * 90 + "]" * 90]
)
def test_values_in_each_other_without_end_are_refused(data: dict[str, Any], loop: str) -> None:
    found = problems(put(data, "scoring.custom", {"mine": {"source": "x.py", "options": {"a": yaml.safe_load(loop)}}}))
    assert found["scoring"].value == "blocks and lists in more than 50 others"


@pytest.mark.parametrize(
    ("text", "given", "allowed"),
    [
        ("2024-01-02", "a value of the type date", "a date is text in quotes"),
        ("2024-01-02T03:04:05Z", "a value of the type datetime", "a date is text in quotes"),
        ("!!binary aGk=", "a value of the type bytes", "text, a number"),
        ("!!set {a, b}", "a value of the type set", "text, a number"),
        (".nan", "nan", "a finite number"),
        ("-.inf", "-inf", "a finite number"),
        ("0x" + "f" * 5000, "an integer of 20000 bits", "at most 63 bits"),
        ("{yes: 1}", "a key of the type bool", "YAML reads yes, no, on and off as true and false"),
        ("{2024-01-02: 1}", "a key of the type date", "in quotes"),
        ("{~: 1}", "a key of the type NoneType", "in quotes"),
        (r'"\ud800"', r"'\ud800'", "lone surrogate"),
        (r'{"\ud800": 1}', r"the key '\ud800'", "valid Unicode"),
    ],
)
def test_what_yaml_has_and_json_has_not_is_refused(data: dict[str, Any], text: str, given: str, allowed: str) -> None:
    for options in ({"a": yaml.safe_load(text)}, {"a": [1, {"b": yaml.safe_load(text)}]}):
        found = problems(put(data, "scoring.custom", {"mine": {"source": "x.py", "options": options}}))
        (problem,) = found.values()
        assert problem.path.startswith("scoring.custom.mine.options.a")
        assert problem.value == given
        assert allowed in problem.allowed


def test_a_top_level_key_that_is_no_text_is_refused(data: dict[str, Any]) -> None:
    assert problems({**data, True: 1})[""].value == "a key of the type bool"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: a\nseed: 1\nrun: b\n", "the key 'run' .*line 1, column 1 is there a second time .*line 3, column 1"),
        ("report: {title: a, title: b}\n", "the key 'title' .*line 1, column 10 is there a second time .*column 20"),
        ("methods:\n  grpo: {}\n  'grpo': {}\n", "the key 'grpo' .*line 2, column 3 .*line 3, column 3"),
        ('{"run": "a", "run": "b"}', "the key 'run' .*column 2 .*column 14"),
        ("a: " + "[" * 600 + "]" * 600, "too many blocks or lists in each other"),
        ("seed: " + "9" * 5000, "4300 digits"),
        ("report: {title: 2024-99-99}", "month must be in 1..12"),
        ("report: {title: 'a\0b'}", "special characters are not allowed"),
        ("report:\n\ttitle: a\n", "cannot start any token"),
        ("a: !!python/object/apply:os.system ['false']", "could not determine a constructor"),
        ("a: !!python/tuple [1]", "could not determine a constructor"),
        ("a: *b", "undefined alias"),
        ("? [a, b]\n: 1", "unhashable key"),
        ("run: a\n---\nrun: b\n", "expected a single document"),
        ("<<: 3\n", "expected a mapping"),
    ],
)
def test_a_file_that_is_no_sound_yaml_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(path)
    assert [problem.path for problem in caught.value.problems] == [str(path)]


def test_merged_keys_may_be_set_anew(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("\ufeffa: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*b, *a], y: 4}\n", encoding="utf-8")
    assert read_yaml(path) == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4}}


def test_divisors_of_a_huge_number_are_found_in_a_moment(data: dict[str, Any]) -> None:
    start = time.process_time()
    found = problems(put(data, "train.steps", 63 * 10**16 + 63))
    assert "for instance" in found["train.eval_every"].allowed
    assert time.process_time() - start < 2


def test_with_checkpoints_nothing_is_trained_unless_methods_are_named(data: dict[str, Any]) -> None:
    del data["methods"]
    assert set(load_config(data).methods) == {"grpo", "dapo", "rkl", "exp_only", "dph_f", "dph_js"}
    assert load_config(data | {"checkpoints": {"trl": "out"}}).methods == {}
    both = load_config(data | {"checkpoints": {"trl": "out"}, "methods": {"mine": {"rollout_on": "all"}}})
    assert set(both.methods) == {"mine"}


def test_only_a_run_that_trains_needs_a_training_set(data: dict[str, Any]) -> None:
    del data["train_dataset"]
    assert "a name under datasets" in problems(data)["train_dataset"].allowed
    first, *_ = data["evaluate"]["datasets"]
    config = load_config(data | {"methods": {}})
    assert config.roles[first] == "in_domain"
    assert not config.presamples


def test_a_model_is_a_name_of_the_hub_or_a_folder(data: dict[str, Any], tmp_path: Path) -> None:
    for base in ("org/model", "hf://org/model@v1"):
        check_files(load_config(put(data, "policy.base", base)), tmp_path)
    # The owner is a folder here, so this is a path.
    (tmp_path / "org").mkdir()
    for base, part in (("org/model", "or hf://ORG/NAME"), ("hf://datasets/org/data/a.json", "expected a model")):
        with pytest.raises(ConfigError, match=part):
            check_files(load_config(put(data, "policy.base", base)), tmp_path)


def test_shards_of_verl_are_refused_with_the_command_that_merges_them(data: dict[str, Any], tmp_path: Path) -> None:
    actor = tmp_path / "ckpt/global_step_2/actor"
    actor.mkdir(parents=True)
    (actor / "model_world_size_2_rank_0.pt").touch()
    (actor / "config.json").touch()
    for place in ("ckpt/global_step_2", "ckpt/global_step_2/actor"):
        with pytest.raises(ConfigError, match=r"python -m verl\.model_merger merge --backend fsdp") as caught:
            check_files(load_config(data | {"checkpoints": {"verl": place}}), tmp_path)
        command = f"--local_dir ckpt/global_step_2/actor --target_dir {place}/merged"
        assert command in str(caught.value)


def test_data_of_the_hub_with_queries_needs_a_folder_of_databases(data: dict[str, Any]) -> None:
    data["datasets"]["train"] = {"task": "sql", "source": "hf://datasets/org/data/train.jsonl"}
    assert "the hub brings one file" in problems(data)["datasets.train.databases"].allowed
