"""Files, folders and models that a configuration names are looked for at the start."""

from pathlib import Path
from typing import Any

import pytest
from configurations import RECORDED, demo, put

from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import load_config
from dphrl.config.places import check_files


def refused(data: dict[str, Any], folder: Path) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        check_files(load_config(data), folder)
    return list(caught.value.problems)


def test_every_place_is_looked_for_in_the_folder_of_the_run(tmp_path: Path) -> None:
    check_files(load_config(demo()), tmp_path)
    data = put(demo(), "policy", {"base": "model", "supervised": {"source": "learned.jsonl", "steps": 1}})
    data["datasets"]["train"]["source"] = "rows.jsonl"
    data["replay"] = {"base": {"train": "answers.jsonl"}}
    data["scoring"]["custom"] = {"mine": {"source": "mine.py"}}
    data["checkpoints"] = {"trl": ["model", "adapter"]}
    data["partition"]["given"] = {"pef": "pef.jsonl", "exp": "exp.jsonl"}
    data["methods"]["grpo"]["advantage"] = "own.py:f"
    missing = refused(data, tmp_path)
    assert {problem.path for problem in missing} == {
        "datasets.train.source",
        "datasets.train.databases",
        "policy.base",
        "policy.supervised.source",
        "scoring.custom.mine.source",
        "partition.given.pef",
        "partition.given.exp",
        "replay.base.train",
        "checkpoints.trl",
        "methods.grpo.advantage",
    }
    assert all(str(tmp_path) in problem.allowed for problem in missing)
    for name in ("model", "database", "adapter"):
        (tmp_path / name).mkdir()
    files = ["rows", "learned", "answers", "pef", "exp"]
    for name in (
        "model/config.json",
        "adapter/adapter_config.json",
        "mine.py",
        "own.py",
        *(f"{f}.jsonl" for f in files),
    ):
        (tmp_path / name).touch()
    check_files(load_config(data), tmp_path)


def test_databases_are_next_to_the_source_unless_stated_otherwise() -> None:
    assert load_config(RECORDED).datasets["spider"].database_folder == "spider/database"
    elsewhere = {"spider": {"task": "sql", "source": "spider/dev.json", "databases": "db"}}
    assert load_config(RECORDED | {"datasets": elsewhere}).datasets["spider"].database_folder == "db"


def test_trackers_without_their_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dphrl.config.places.find_spec", {"tensorboard": True, "wandb": None}.get)
    (problem,) = refused(put(demo(), "train.trackers", ["tensorboard", "wandb"]), tmp_path)
    assert problem.path == "train.trackers"
    assert "pip install wandb" in problem.allowed


@pytest.mark.parametrize(
    "text", ['{{"max_position_embeddings": {}}}', '{{"text_config": {{"max_position_embeddings": {}}}}}']
)
def test_more_tokens_than_the_model_has_positions_are_refused(tmp_path: Path, text: str) -> None:
    data = put(demo(), "policy.base", "base")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/config.json").write_text(text.format(64))
    (problem,) = refused(data, tmp_path)
    assert (problem.path, problem.value) == ("engine.max_model_len", "128")
    assert "at most 64, the positions of the model" in problem.allowed
    for fine in (text.format(128), '{"max_position_embeddings": 64, "rope_scaling": {"factor": 4.0}}', "damaged"):
        (tmp_path / "base/config.json").write_text(fine)
        check_files(load_config(data), tmp_path)


def test_a_model_is_a_name_of_the_hub_or_a_folder(tmp_path: Path) -> None:
    for base in ("org/model", "hf://org/model@v1"):
        check_files(load_config(put(demo(), "policy.base", base)), tmp_path)
    # The owner is a folder here, so this is a path.
    (tmp_path / "org").mkdir()
    for base, part in (("org/model", "hf://ORG/NAME"), ("hf://datasets/org/data/a.json", "expected a model")):
        (problem,) = refused(put(demo(), "policy.base", base), tmp_path)
        assert part in problem.allowed


def test_data_of_the_hub_with_queries_needs_a_folder_of_databases(tmp_path: Path) -> None:
    data = put(demo(), "datasets.train", {"task": "sql", "source": "hf://datasets/org/data/train.jsonl"})
    assert [problem.path for problem in refused(data, tmp_path)] == ["datasets.train.databases"]
