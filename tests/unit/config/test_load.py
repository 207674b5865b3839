"""A wrong configuration is refused; the error names the key, its value, the allowed values, the nearest key."""

from datetime import date
from pathlib import Path

import pytest
import yaml
from configurations import MISSING, demo, problems, put

from dphrl.config.load import load_config, read_config


def test_an_unknown_key_names_path_value_known_keys_and_nearest() -> None:
    problem = problems(put(demo(), "train.lr_", 3))["train.lr_"]
    assert (problem.value, problem.nearest) == ("3", "train.lr")
    assert problem.allowed.startswith("no such key; known here: betas, ")
    assert str(problem).startswith("train.lr_\n  value:   3\n  allowed: no such key")
    assert str(problem).endswith("\n  nearest: train.lr")


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("trian_dataset", "train_dataset"),
        ("methods.grpo.eps_hi", "methods.grpo.eps_high"),
        ("steps", "train.steps"),
        ("train.ranks", "hardware.ranks"),
        ("zzzzzzzz", None),
    ],
)
def test_the_nearest_key_has_the_most_similar_name(path: str, nearest: str | None) -> None:
    assert problems(put(demo(), path, 1))[path].nearest == nearest


@pytest.mark.parametrize(
    ("path", "value", "allowed", "nearest"),
    [
        ("partition.on_reject", "explor", "'explore' or 'discard'", "explore"),
        ("methods.grpo.divergence", "jss", "'forward_kl', 'js', 'alpha'", "js"),
        ("methods.grpo.advantage", "mine:f", ".py:", None),
        ("methods.grpo.js_beta", "atuo", "'auto' or a valid number", "auto"),
        ("engine.stages.rollout", "vllm", "'presample', 'refine', 'evaluate' or 'rollouts'", "rollouts"),
        ("hardware.zero_stage", 4, "0, 1, 2 or 3", None),
        ("sampling.presample.n", -4, "greater than or equal to 1", None),
        ("train.lr", float("nan"), "a finite number", None),
        ("methods.grpo.advantage_settings.k", float("nan"), "valid boolean or a finite number or a valid string", None),
        ("train.seeds", 1, "a list", None),
        ("train.seeds", [], "at least 1 item", None),
        ("prompts", [], "a block of keys", None),
        ("run", MISSING, "this key is required", None),
        ("scoring.custom.mine.options.since", date(2024, 1, 1), "a text (a date in quotes)", None),
    ],
)
def test_a_wrong_value_names_what_is_allowed(path: str, value: object, allowed: str, nearest: str | None) -> None:
    problem = problems(put(demo(), path, value))[path]
    assert allowed in problem.allowed
    assert problem.nearest == nearest


def test_a_wrong_value_in_a_list_has_its_place() -> None:
    assert "less than 1" in problems(put(demo(), "toy.optimizer.betas", [0.9, 9.5]))["toy.optimizer.betas[1]"].allowed


def test_all_problems_are_listed_at_once() -> None:
    wrong = put(put(put(demo(), "train.lr_", 1), "seed", -1), "methods.grpo.rollout_on", "some")
    assert set(problems(wrong)) == {"train.lr_", "seed", "methods.grpo.rollout_on"}


def test_a_number_written_without_a_point_is_a_number() -> None:
    assert yaml.safe_load("1e-6") == "1e-6"
    assert load_config(put(demo(), "train.lr", "1e-6")).train.lr == 1e-6


def test_the_divergence_sets_the_papers_weight() -> None:
    blocks = {"f": {"divergence": "forward_kl"}, "j": {"divergence": "js"}, "n": {}}
    methods = load_config(put(demo(), "methods", blocks)).methods
    assert (methods["f"].eta, methods["j"].eta, methods["n"].eta) == (0.01, 0.2, 0.0)


def test_a_function_of_the_user_has_the_keys_of_a_rehearsed_divergence() -> None:
    place = "folder/mine.py:f"
    method = {"divergence": place, "advantage": "mine.py:g", "l_cap": 2.0}
    mine = load_config(put(demo(), "methods", {"mine": method})).methods["mine"]
    assert (mine.rehearses, mine.needs_reference_model, mine.eta) == (True, False, 0.01)
    assert mine.functions == {"divergence": place, "advantage": "mine.py:g"}
    assert mine.files == ["folder/mine.py", "mine.py"]


def test_an_empty_configuration_says_what_is_required() -> None:
    assert problems({}).keys() == {"run", "datasets"}


def test_with_checkpoints_nothing_is_trained_unless_methods_are_named() -> None:
    data = put(demo(), "methods", MISSING)
    assert set(load_config(data).methods) == {"grpo", "dapo", "rkl", "exp_only", "dph_f", "dph_js"}
    assert load_config(data | {"checkpoints": {"trl": "out"}}).methods == {}
    both = load_config(data | {"checkpoints": {"trl": "out"}, "methods": {"mine": {"rollout_on": "all"}}})
    assert set(both.methods) == {"mine"}


@pytest.mark.parametrize("mark", ["\ufeff", ""])
def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_bytes((mark + yaml.safe_dump(demo())).replace("\n", "\r\n").encode())
    assert read_config(file).run == "demo"
