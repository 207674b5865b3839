"""Several files of one configuration: merging, removal by null, and files in errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from experiments import ROOT
from hypothesis import given
from hypothesis import strategies as st
from snakemake.utils import update_config

from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.config.yaml_files import merged, read_yaml

FULL = ROOT / "config" / "experiments" / "demo-full.yaml"

INNER = st.fixed_dictionaries({}, optional={"a": st.integers(0, 3), "b": st.lists(st.integers(0, 3), max_size=2)})
BLOCKS = st.fixed_dictionaries({}, optional={"c": INNER, "d": INNER, "e": st.text("xy", max_size=1)})


def write(folder: Path, **files: object) -> list[Path]:
    paths = [folder / f"{name}.yaml" for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return paths


def error_of(*paths: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(*paths)
    return str(caught.value)


@given(BLOCKS, BLOCKS)
def test_files_without_null_are_merged_as_snakemake_merges_them(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    ours = merged(earlier, later)
    update_config(earlier, later)
    assert repr(ours) == repr(earlier)


def test_null_removes_blocks_and_is_a_value_elsewhere() -> None:
    earlier = {"block": {"a": 1}, "number": 3.0, "nested": {"b": {"c": 1}, "d": 2}}
    later = {"new": None, "number": None, "nested": {"b": None}, "block": None}
    # Keys keep their places.
    assert repr(merged(earlier, later)) == repr({"number": None, "nested": {"d": 2}, "new": None})
    assert merged(earlier, {"block": None}, {"block": {"z": 1}})["block"] == {"z": 1}


def test_an_entry_without_keys_that_removes_nothing_is_refused(tmp_path: Path) -> None:
    """In a single file it looks like an entry with all defaults: it must not be left out silently."""
    text = FULL.read_text(encoding="utf-8").replace("  exp_only: {rollout_on: exp, seeds: 5}\n", "  exp_only:\n")
    error = error_of(*write(tmp_path, single=text))
    assert "methods.exp_only\n  value:   null\n  allowed: a block of keys ({} has all defaults)" in error
    error = error_of(FULL, *write(tmp_path, change={"datasets": {"tset": None}}))
    assert "datasets.tset\n" in error


def test_an_error_names_all_files_and_each_key(tmp_path: Path) -> None:
    files = write(tmp_path, first={"train": {"lr": 0.1, "lrr": 1}}, second={"train": {"lr": -1}, "seed": -1})
    text = error_of(FULL, *files)
    assert text.startswith(f"The configuration {FULL}, {files[0]}, {files[1]} has 3 problems:\n")
    assert all(f"\n{key}\n  value: " in text for key in ("train.lrr", "train.lr", "seed"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("", "a block of keys"),
        ("a: [1", "while parsing"),
        ("report: {title: 2024-99-99}", "month must be in 1..12"),
        ("run: a\nseed: 1\nrun: b\n", "the key 'run' .*line 1, column 1 is there a second time .*line 3, column 1"),
        ("report: {title: a, title: b}\n", "the key 'title' .*line 1, column 10 is there a second time .*column 20"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(path)
    assert [problem.path for problem in caught.value.problems] == [str(path)]


def test_merged_keys_may_be_set_anew(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("\ufeffa: &a {x: 1, y: 2}\nb: &b {<<: *a, x: 3}\nc: {<<: [*b, *a], y: 4}\n", encoding="utf-8")
    assert read_yaml(path) == {"a": {"x": 1, "y": 2}, "b": {"x": 3, "y": 2}, "c": {"x": 3, "y": 4}}
