"""Several files of one configuration: merging, removal by null, names of files in errors; and the file of the world."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from experiments import DEMO, DIGESTS, NAMES, OVERLAYS, ROOT, digest, experiment, files_of, header
from hypothesis import given
from hypothesis import strategies as st
from snakemake.utils import update_config

from dphrl.config.errors import ConfigError
from dphrl.config.files import merged
from dphrl.config.load import load_config, read_config
from dphrl.config.slices import canonical, world

FULL = ROOT / "config" / "experiments" / "demo-full.yaml"
METHODS = list(experiment("demo-full").methods)
WORLD = ROOT / "config" / "world.yaml"

values = st.recursive(
    st.none() | st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
blocks = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def write(folder: Path, **files: object) -> list[Path]:
    paths = [folder / f"{name}.yaml" for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return paths


def error_of(*paths: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(*paths)
    return str(caught.value)


@pytest.mark.parametrize("name", [DEMO, *NAMES])
def test_the_configuration_of_an_experiment_has_the_registered_digest(name: str) -> None:
    registered = yaml.safe_load(DIGESTS.read_text(encoding="utf-8"))
    assert registered.keys() == {DEMO, *NAMES}
    assert digest(name) == registered[name], "if this change is meant: python tests/support/experiments.py"


def test_the_header_of_an_overlay_names_the_experiment_that_it_changes() -> None:
    for name in NAMES:
        files = [OVERLAYS[name], name] if name in OVERLAYS else [name]
        assert files_of(name) == [FULL.with_name(f"{file}.yaml") for file in files]


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_has_no_value_that_its_base_has(name: str) -> None:
    def same(overlay: dict[str, Any], base: dict[str, Any]) -> list[str]:
        inner = [same(value, base[key]) for key, value in overlay.items() if isinstance(value, dict) and key in base]
        return sum(inner, [key for key, value in overlay.items() if key in base and value == base[key]])

    base, overlay = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in files_of(name))
    if "toy" in base:
        base |= {"toy": yaml.safe_load(WORLD.read_text(encoding="utf-8")) | base["toy"]}
    assert same(overlay, base) == []


@given(blocks, blocks)
def test_files_are_merged_as_snakemake_merges_them(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    ours = merged(earlier, later)
    update_config(earlier, later)
    assert repr(ours) == repr(earlier)


@pytest.mark.parametrize(
    ("change", "path", "left"),
    [
        ({"methods": {"rkl_k3": None}}, "methods", [name for name in METHODS if name != "rkl_k3"]),
        ({"methods": None}, "methods", ["grpo", "dapo", "rkl", "exp_only", "dph_f", "dph_js"]),
        ({"methods": {"dph_js": {"eta": 0.4}, "mine": {}}}, "methods", [*METHODS, "mine"]),
        (
            {
                "datasets": {"in_domain": None, "cross": {"task": "sql", "source": "toy"}},
                "evaluate": {"datasets": ["cross"], "claims": None},
            },
            "datasets",
            ["train", "cross"],
        ),
        ({"evaluate": {"claims": {"primary": None}}}, "evaluate.claims.primary", None),
    ],
)
def test_null_removes_an_entry_or_a_block_and_keeps_the_order(
    tmp_path: Path, change: dict[str, Any], path: str, left: list[str] | None
) -> None:
    if left is None:  # null is no list, and a list is no block
        assert f"{path}\n  file:    {tmp_path}/change.yaml\n  given:   null" in error_of(
            FULL, *write(tmp_path, change=change)
        )
        return
    config = read_config(FULL, *write(tmp_path, change=change))
    assert list(getattr(config, path)) == left


def test_null_gives_an_optional_block_its_defaults_and_a_nullable_key_the_value_null(tmp_path: Path) -> None:
    change = {"evaluate": {"claims": None}, "scoring": {"sql": None}, "train": {"dual_clip": None}, "partition": None}
    (path,) = write(tmp_path, change=change)
    assert read_config(FULL).evaluate.claims.margin == 0.05
    config = read_config(FULL, path)
    bare = load_config({"run": "r", "policy": {"base": "b"}, "datasets": {"d": {"task": "sql", "source": "d.json"}},
                        "train_dataset": "d", "evaluate": {"datasets": ["d"]}, "methods": {}})  # fmt: skip
    assert (config.evaluate.claims, config.scoring.sql, config.partition) == (
        bare.evaluate.claims,
        bare.scoring.sql,
        bare.partition,
    )
    assert config.train.dual_clip is None


def test_null_removes_recorded_answers_and_is_kept_in_options_of_a_scorer(tmp_path: Path) -> None:
    scorer = {"source": "mine.py", "options": {"limit": None}}
    base = {
        "run": "r",
        "datasets": {"d": {"task": "mine", "source": "d.json"}},
        "train_dataset": "d",
        "evaluate": {"datasets": ["d"]},
        "methods": {},
        "scoring": {"custom": {"mine": scorer, "other": scorer}},
        "replay": {"base": {"d": "a.json"}, "second": {"d": "b.json"}},
    }
    change = {"replay": {"second": None}, "scoring": {"custom": {"other": None}}}
    config = read_config(*write(tmp_path, base=base, change=change))
    assert config.replay == {"base": {"d": "a.json"}}
    assert {name: one.options for name, one in config.scoring.custom.items()} == {"mine": {"limit": None}}


def test_null_in_place_of_the_keys_of_a_new_entry_is_refused(tmp_path: Path) -> None:
    """An entry without keys in a single file looks like one with all defaults: it must not be left out silently."""
    text = FULL.read_text(encoding="utf-8").replace("  exp_only: {rollout_on: exp, seeds: 5}\n", "  exp_only:\n")
    assert "methods.exp_only\n  given:   null\n  allowed: a block of keys ({}: all defaults)" in error_of(
        *write(tmp_path, single=text)
    )
    assert f"datasets.tset\n  file:    {tmp_path}/change.yaml\n" in error_of(
        FULL, *write(tmp_path, change={"datasets": {"tset": None}})
    )


def test_a_problem_names_the_last_file_with_its_key(tmp_path: Path) -> None:
    first, second = write(tmp_path, first={"train": {"lr": 0.1, "lrr": 1}}, second={"train": {"lr": -1}, "seed": -1})
    text = error_of(FULL, first, second)
    assert text.startswith(f"The configuration {FULL}, {first}, {second} has 3 problems:\n")
    assert f"train.lrr\n  file:    {first}\n" in text
    assert f"train.lr\n  file:    {second}\n  given:   -1\n" in text
    assert f"seed\n  file:    {second}\n" in text
    (one,) = write(tmp_path, one=FULL.read_text() + "seeds: 1\n")
    assert error_of(one).startswith(f"The configuration {one} has 1 problem:\n")
    assert "  file: " not in error_of(one)
    (conflicting,) = write(tmp_path, conflicting={"train": {"mini_batches": 3}})
    assert f"train.mini_batches\n  file:    {conflicting}\n" in error_of(FULL, conflicting)


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_alone_is_refused_in_one_sentence(name: str) -> None:
    *_, file = files_of(name)
    assert error_of(file) == (
        f"{file} only changes another configuration (it has no training set): name that one first, as in "
        f"BASE.yaml {file}"
    )
    assert f"{OVERLAYS[name]}.yaml {file.relative_to(ROOT)}" in header(name)


def with_world(folder: Path, text: str, **own: object) -> Path:
    (file,) = write(folder, world=text)
    data = yaml.safe_load(FULL.read_text(encoding="utf-8"))
    return write(folder, own=data | {"toy": {"world": str(file), **own}})[0]


def test_keys_next_to_the_world_win_and_its_path_is_in_no_footer(tmp_path: Path) -> None:
    text = WORLD.read_text(encoding="utf-8")
    config = read_config(with_world(tmp_path, text, seed=4, questions={"train": 7}, optimizer={"steps": 2}))
    assert config.toy
    assert (config.toy.seed, config.toy.questions.train, config.toy.optimizer.steps) == (4, 7, 2)
    assert (config.toy.questions.in_domain, config.toy.optimizer.warmup, config.toy.threads) == (500, 50, 1)
    assert "world.yaml" not in repr(canonical(config)) + repr(config)
    assert world(read_config(with_world(tmp_path, text, seed=1))) == world(experiment("demo-full"))
    assert load_config(canonical(config)) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vocabulry: 512\n", r"toy\.vocabulry\n  file:    {world}\n.*\n  allowed: no such key; .*\n  nearest: toy\."),
        ("corpus: few\n", r"toy\.corpus\n  file:    {world}\n  given:   'few'\n  allowed: a valid integer"),
        ("train_strata: {plain: 0.5}\n", r"toy\.train_strata\n  file:    {world}\n.*\n  allowed: plain \+ noisy"),
        ("model: {layers: .inf}\n", r"toy\.model\.layers\n  file:    {world}\n  given:   inf"),
        ("world: other.yaml\n", r"toy\.world\n  given:   '{world}'\n.*without the key world"),
        ("- 1\n", r"toy\.world\n  given:   '{world}'\n  allowed: a YAML file with keys of the block toy"),
        ("corpus: 1\ncorpus: 2\n", r"{world}\n  given:   the key 'corpus' .* is there a second time"),
    ],
)
def test_a_wrong_key_of_the_world_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = error_of(with_world(Path(), text))
    assert re.search(message.replace("{world}", r"world\.yaml"), error), error


@pytest.mark.parametrize("path", ["config/missing.yaml", 3, {}, "config"])
def test_a_world_that_is_not_there_is_refused_with_the_folder(path: object) -> None:
    data = yaml.safe_load(FULL.read_text(encoding="utf-8"))
    with pytest.raises(ConfigError) as caught:
        load_config(data | {"toy": {"world": path}})
    assert "toy.world\n" in str(caught.value)
    assert f"allowed: a YAML file with keys of the block toy (paths are relative to {Path.cwd()})" in str(caught.value)
