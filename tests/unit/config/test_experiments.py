"""The experiments of the paper as configurations: with the published methods, and no value of config.yaml."""

from pathlib import Path
from typing import Any

import pytest
from experiments import DEMO, NAMES, experiment, files_of

from dphrl.config import slices

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "config" / "experiments"
WORLD = [name for name in NAMES if name.startswith(("world-", "demo-full", "draws"))]


OF_LLAMA_SQL = ["alpha-ablation", "eta-ablation", "generator-definition", "llama-sql", "rkl-estimators"]
MAIN = ["llama-math", "llama-sql", "omnisql-sql", "qwen-math"]


def test_the_ablations_vary_what_they_are_named_after() -> None:
    alphas = experiment("alpha-ablation").methods
    assert [alphas[f"alpha_0_{tenths}"].alpha for tenths in (2, 5, 8)] == [0.2, 0.5, 0.8]
    estimators = experiment("rkl-estimators").methods
    assert [estimators[key].estimator for key in ("rkl", "rkl_k2", "rkl_reward_k1")] == ["k3", "k2", "reward_k1"]
    assert {m.js_scale for m in experiment("generator-definition").methods.values()} == {1.0}


@pytest.mark.parametrize("name", WORLD)
def test_the_files_of_the_world_differ_in_what_they_are_named_after(name: str) -> None:
    demo = experiment(DEMO)
    one = experiment(name)
    assert one.toy
    assert demo.toy
    of_another = {"seed"} if name in ("world-2", "world-3") else {"questions", "train_strata", "test_strata"}
    assert one.toy.model_dump(exclude=of_another) == demo.toy.model_dump(exclude=of_another)
    assert one.policy.base == (None if name in ("world-2", "world-3") else demo.policy.base)
    assert (one.scoring.sql, one.prompts, one.partition) == (demo.scoring.sql, demo.prompts, demo.partition)
    assert one.sampling.presample == demo.sampling.presample
    number = {"seeds", "segment_steps", "eval_every", *(["draws"] if name == "draws" else [])}
    assert one.train.model_dump(exclude=number) == demo.train.model_dump(exclude=number)
    # A method that two files have is the same in both, but for the number of its trainings.
    for method in one.methods.keys() & demo.methods.keys():
        assert one.methods[method].model_dump(exclude={"seeds"}) == demo.methods[method].model_dump(exclude={"seeds"})


def test_the_methods_of_the_world_have_equal_strength_but_for_the_published_weights() -> None:
    def strengths(name: str) -> dict[str, float]:
        config = experiment(name)
        halves = {"js": 0.5, "js_definition": 0.5}
        methods = {key: method for key, method in config.methods.items() if method.divergence}
        return {key: round(halves.get(m.divergence or "", 1.0) * m.eta, 6) for key, m in methods.items()}

    published = {"dph_f_published": 0.01 / 8, "dph_js_published": 0.2 / 8 / 2}
    for name in ("demo-full", "world-2", "world-3"):
        found = strengths(name)
        assert {key: found.pop(key) for key in published if key in found} == (published if name == "demo-full" else {})
        assert set(found.values()) == {0.1}


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        *((name, ("pass@16", "in_domain", "ambiguous")) for name in (DEMO, "demo-full", "world-2", "world-3")),
        *((name, ("pass@16", "unseen", None)) for name in ("demo-llm", "demo-llm-full")),
    ],
)
def test_the_primary_endpoints_are_the_registered_four(name: str, endpoint: tuple[str, str, str | None]) -> None:
    claims = experiment(name).evaluate.claims
    assert claims.margin == 0.05
    assert [(one.method, one.against, one.relation) for one in claims.primary] == [
        ("grpo", "base", "lower"),
        ("dph_f", "grpo", "higher"),
        ("dph_js", "grpo", "higher"),
        ("dph_js", "exp_only", "higher"),
    ]
    assert {(one.metric, one.dataset, one.level) for one in claims.primary} == {endpoint}


def test_the_files_of_llama_on_sql_differ_in_methods_only() -> None:
    # The ablations have one training seed each.
    exclude: Any = {"run": True, "methods": True, "report": True, "train": {"seeds"}}
    whole = experiment("llama-sql").model_dump(exclude=exclude)
    known: dict[str, Any] = {}
    for name in OF_LLAMA_SQL:
        config = experiment(name)
        assert config.model_dump(exclude=exclude) == whole
        for method, block in config.methods.items():
            assert known.setdefault(method, block) == block, f"{method} differs in {name}"


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
    for part in (slices.reference, slices.candidates, slices.partition):
        assert part(maths) == part(sql)
    assert maths.methods == sql.methods
    for method in sql.methods:
        assert slices.train(maths, method) == slices.train(sql, method)
    for key in ("steps", "segment_steps", "seeds"):
        assert getattr(maths.train, key) == getattr(sql.train, key)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_names_its_run_and_its_command(name: str) -> None:
    assert files_of(name)[-1].stem == name
    assert experiment(name).run == ("llama-sql" if name == "llama-sql-maths" else name)


def test_the_page_of_experiments_lists_every_file_and_its_run_time() -> None:
    rows = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").splitlines()
    for name in NAMES:
        (row,) = [row for row in rows if row.startswith(f"| [{name}](../config/experiments/{name}.yaml)")]
        assert all(cell.strip() for cell in row.strip("|").split("|"))


@pytest.mark.parametrize(
    ("name", "roles"),
    [
        ("llama-sql", {"bird": "in_domain", "spider": "cross_domain"}),
        ("omnisql-sql", {"bird": "in_domain", "spider": "cross_domain"}),
        ("llama-sql-maths", "out_of_domain"),
        ("llama-math", "in_domain"),
        ("qwen-math", "in_domain"),
    ],
)
def test_the_sets_of_an_experiment_are_asked_the_claims_of_their_role(name: str, roles: str | dict[str, str]) -> None:
    config = experiment(name)
    assert config.roles == (roles if isinstance(roles, dict) else dict.fromkeys(config.evaluate.datasets, roles))
