"""The experiments of the paper as configurations: with the published methods, and no value of config.yaml."""

from typing import Any

import pytest
import yaml
from experiments import DEMO, DIGESTS, NAMES, OVERLAYS, ROOT, digest, experiment, files_of

from dphrl.config import slices

FOLDER = ROOT / "config" / "experiments"
WORLD = [DEMO, *(name for name in NAMES if name.startswith(("world-", "demo-full-", "draws")))]
OF_LLAMA_SQL = ["alpha-ablation", "eta-ablation", "generator-definition", "llama-sql", "rkl-estimators"]
MAIN = ["llama-math", "llama-sql", "omnisql-sql", "qwen-math"]


@pytest.mark.parametrize("name", WORLD)
def test_the_files_of_the_world_differ_in_what_they_are_named_after(name: str) -> None:
    whole, config = experiment("demo-full"), experiment(name)
    assert config.toy
    assert whole.toy
    of_another = {"seed"} if name in ("world-2", "world-3") else {"questions", "train_strata", "test_strata"}
    assert config.toy.model_dump(exclude=of_another) == whole.toy.model_dump(exclude=of_another)
    assert config.policy.base == (None if name in ("world-2", "world-3") else whole.policy.base)
    assert (config.scoring.sql, config.prompts, config.partition) == (whole.scoring.sql, whole.prompts, whole.partition)
    assert config.sampling.presample == whole.sampling.presample
    own_keys = {"draws"} if name == "draws" else {"lr", "steps", "probe"} if name == DEMO else set[str]()
    number = {"seeds", "segment_steps", "eval_every"} | own_keys
    assert config.train.model_dump(exclude=number) == whole.train.model_dump(exclude=number)
    # A method that two files have is the same in both, but for the number of its trainings.
    for method in config.methods.keys() & whole.methods.keys():
        own, other = (file.methods[method].model_dump(exclude={"seeds"}) for file in (config, whole))
        assert own == other


def test_the_files_of_llama_on_sql_differ_in_methods_only() -> None:
    # The ablations have one training seed each.
    exclude: Any = {"run": True, "methods": True, "report": True, "train": {"seeds"}}
    whole = experiment("llama-sql").model_dump(exclude=exclude)
    blocks: dict[str, Any] = {}
    for name in OF_LLAMA_SQL:
        config = experiment(name)
        assert config.model_dump(exclude=exclude) == whole
        for method, block in config.methods.items():
            assert blocks.setdefault(method, block) == block, f"{method} differs in {name}"


@pytest.mark.parametrize("name", MAIN)
def test_the_files_of_equal_steps_differ_in_steps_only(name: str) -> None:
    epochs, steps = experiment(name), experiment(f"{name}-equal-steps")
    exclude: Any = {"run": True, "methods": True, "report": True, "train": {"steps", "segment_steps", "eval_every"}}
    assert steps.model_dump(exclude=exclude) == epochs.model_dump(exclude=exclude)
    assert {method.steps for method in steps.methods.values()} == {None}
    for method, block in epochs.methods.items():
        assert block.model_copy(update={"steps": None}) == steps.methods[method]
        assert (block.steps is None) == (block.rollout_on == "exp")


def test_the_maths_of_llama_on_sql_takes_the_policies_of_that_run() -> None:
    sql, maths = experiment("llama-sql"), experiment("llama-sql-maths")
    assert maths.run == sql.run
    assert maths.datasets["bird_train"] == sql.datasets["bird_train"]
    assert maths.partition == sql.partition
    for plan in ("presample", "refine"):
        assert slices.sample(maths, "base", "bird_train", plan) == slices.sample(sql, "base", "bird_train", plan)
    for part in (slices.candidates, slices.partition):
        assert part(maths) == part(sql)
    assert slices.reference(maths, "reference") == slices.reference(sql, "reference")
    assert maths.methods == sql.methods
    for method in sql.methods:
        assert slices.train(maths, method) == slices.train(sql, method)
    for key in ("steps", "segment_steps", "seeds"):
        assert getattr(maths.train, key) == getattr(sql.train, key)


@pytest.mark.parametrize("name", [DEMO, *NAMES])
def test_the_configuration_of_an_experiment_has_the_registered_digest(name: str) -> None:
    registered = yaml.safe_load(DIGESTS.read_text(encoding="utf-8"))
    assert registered.keys() == {DEMO, *NAMES}
    assert digest(name) == registered[name], "if this change is meant: python tests/support/experiments.py"


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_has_no_value_that_its_base_has(name: str) -> None:
    def same(overlay: dict[str, Any], base: dict[str, Any]) -> list[str]:
        inner = [same(value, base[key]) for key, value in overlay.items() if isinstance(value, dict) and key in base]
        return sum(inner, [key for key, value in overlay.items() if key in base and value == base[key]])

    *_, base, overlay = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in files_of(name))
    assert same(overlay, base) == []


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_names_its_run_and_the_files_of_its_command(name: str) -> None:
    files = [name]
    while files[0] in OVERLAYS:
        files.insert(0, OVERLAYS[files[0]])
    assert files_of(name) == [FOLDER / f"{file}.yaml" for file in files]
    continued = {"llama-sql-maths": "llama-sql", "arena-free": "arena", "arena-added": "arena"}
    assert experiment(name).run == continued.get(name, name)


def test_the_page_of_experiments_lists_every_file_and_its_run_time() -> None:
    rows = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").splitlines()
    for name in NAMES:
        (row,) = [row for row in rows if row.startswith(f"| [{name}](../config/experiments/{name}.yaml)")]
        assert all(cell.strip() for cell in row.strip("|").split("|"))
