"""Which stages rerun after an edit, by dry runs of the real Snakefile on a finished run: these and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from runs import Workflow, remove

pytestmark = pytest.mark.workflow

SCORED = {"audit_gold", "score", "train_segment"}
SAMPLED = {"sample", "train_segment"}
# The engine of the tiny run is vllm but for these.
SAMPLERS = dict.fromkeys(("presample", "evaluate", "rollouts"), "transformers")
EVERY = {
    *("build_world", "train_base", "prepare_prompts", "audit_gold", "find_overlap", "count_rows", "sample", "score"),
    *("find_candidates", "refine", "tensorise", "train_segment", "collect_training", "evaluate_policy", "make_tables"),
    *("lay_out", "figure", "report", "write_cards", "audit"),
}
# An edited file, and the stages that depend on it. What follows from them reruns too, but is not listed.
EDITS: list[tuple[str, set[str]]] = [
    ("dphrl/store/kinds.py", set()),
    ("dphrl/store/policy_names.py", set()),
    ("dphrl/store/parquet.py", set()),
    ("dphrl/store/files.py", set()),
    ("dphrl/config/slices.py", set()),
    ("dphrl/config/blocks/training.py", set()),
    ("dphrl/data/overlap.py", {"find_overlap"}),
    ("dphrl/data/ground_truth.py", {"prepare_prompts", "audit_gold"}),
    ("dphrl/data/prompts.py", {"prepare_prompts", "train_base"}),
    ("dphrl/policy/vllm_engine.py", SAMPLED),
    ("dphrl/policy/transformers_engine.py", SAMPLED),
    ("dphrl/policy/decoding.py", SAMPLED),
    ("dphrl/policy/requests.py", SAMPLED),
    ("dphrl/policy/replay.py", {"sample"}),
    ("dphrl/scoring/sql/compare.py", SCORED),
    ("dphrl/scoring/math/answers.py", SCORED),
    ("dphrl/data/partition.py", {"find_candidates", "refine"}),
    ("dphrl/data/partition_counts.py", {"find_candidates", "refine", "train_segment"}),
    ("dphrl/training/reference.py", {"tensorise"}),
    ("dphrl/training/stored_responses.py", {"train_segment"}),
    ("dphrl/objective/ppo.py", {"train_segment"}),
    ("dphrl/policy/logprobs.py", {"train_base", "sample", "tensorise", "train_segment"}),
    ("dphrl/training/segment.py", {"train_segment"}),
    ("dphrl/toy/world.py", {"build_world"}),
    ("dphrl/toy/base.py", {"train_base"}),
    ("dphrl/training/supervised.py", {"train_base"}),
    ("dphrl/evaluation/per_prompt.py", {"evaluate_policy", "collect_training"}),
    ("dphrl/evaluation/claims.py", {"make_tables", "report"}),
    ("dphrl/evaluation/bootstrap.py", {"make_tables", "report"}),
    ("dphrl/report/audit_between.py", {"audit"}),
    ("dphrl/report/shown_samples.py", {"report"}),
    ("dphrl/report/figures/solved.py", {"figure"}),
    ("dphrl/report/contents.py", set()),
    (
        "stages/hash_databases.py",
        set(),
    ),  # no dataset of this run has databases: test_databases.py
    ("stages/score.py", {"score"}),
    ("script.py", EVERY),
]
# In `make test-full` only: files whose stages another edit shows too.
LONG = {
    *(f"dphrl/{name}.py" for name in ("store/policy_names", "store/files", "config/blocks/training")),
    *(f"dphrl/{name}.py" for name in ("store/parquet", "data/ground_truth", "policy/replay", "training/reference")),
    *(f"dphrl/policy/{name}.py" for name in ("transformers_engine", "decoding", "requests")),
    *(
        f"dphrl/{name}.py"
        for name in ("scoring/math/answers", "objective/ppo", "training/stored_responses", "toy/base")
    ),
    "dphrl/training/supervised.py",
    *(f"dphrl/{name}.py" for name in ("evaluation/bootstrap", "config/slices")),
    *(f"dphrl/{name}.py" for name in ("evaluation/claims", "data/overlap")),
    *(f"dphrl/report/{name}.py" for name in ("audit_between", "contents", "shown_samples")),
    *("stages/hash_databases.py", "stages/score.py"),
}


# The stage that writes a file of the run; the first that fits counts.
WRITERS = [
    ("toy", "build_world"),
    ("policies/base", "train_base"),
    ("prompts/", "prepare_prompts"),
    ("gold/overlap", "find_overlap"),
    ("gold/", "audit_gold"),
    ("draws/main/rollouts/", "sample"),
    ("draws/main/verdicts/", "score"),
    ("draws/main/partition/candidates", "find_candidates"),
    ("draws/main/partition/final", "refine"),
    ("draws/main/reference/", "tensorise"),
    ("rollouts/", "sample"),
    ("verdicts/", "score"),
    ("policies/", "train_segment"),
    ("states/", "train_segment"),
    ("train/base/", "train_base"),
    ("train/", "train_segment"),
    ("evaluation/", "evaluate_policy"),
    ("tables/datasets", "count_rows"),
    ("tables/training", "collect_training"),
    ("tables/paper/", "lay_out"),
    ("tables/ablation", "lay_out"),
    ("tables/", "make_tables"),
    ("figures/", "figure"),
    ("report/", "report"),
    ("SHA256SUMS", "audit"),
    ("cards/", "write_cards"),
]


def listed(workflow: Workflow) -> set[str]:
    """The files of which Snakemake says that a param differs from its value when they were made."""
    lines = workflow.run("--list-changes", "params").splitlines()
    return {line.partition("/tiny/")[2] for line in lines if "/tiny/" in line}


@pytest.fixture(scope="module")
def always(pristine: Workflow) -> set[str]:
    """What is listed of an unchanged run: Snakemake 9.27 names the last output of every job."""
    return listed(pristine)


def changed(workflow: Workflow, always: set[str]) -> set[str]:
    """The stages of which code or config differs from what their results were made with."""
    files = {file for file in listed(workflow) - always if not file.startswith("timings/")}
    return {next(stage for prefix, stage in WRITERS if file.startswith(prefix)) for file in files}


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


@pytest.mark.parametrize(
    ("file", "stages"),
    [pytest.param(*edit, id=edit[0], marks=[pytest.mark.full] if edit[0] in LONG else []) for edit in EDITS],
)
def test_an_edit_reruns_the_stages_that_import_it_and_no_others(
    pristine: Workflow, always: set[str], code: Path, file: str, stages: set[str]
) -> None:
    append(code.parent / file, "\n_NEW = 1\n")
    assert changed(pristine, always) == stages


def test_an_edit_of_a_template_reruns_the_stages_that_make_pages(
    pristine: Workflow, always: set[str], code: Path
) -> None:
    append(code / "report/templates/report.html.j2", "\n<!-- new -->\n")
    assert changed(pristine, always) == {"report", "write_cards"}


@pytest.mark.parametrize(
    ("schema", "stages"),
    [("metrics", {"train_segment"}), ("overlap", {"find_overlap"}), ("rejected", {"prepare_prompts"})],
)
def test_a_new_schema_reruns_the_stage_that_writes_it(
    pristine: Workflow, always: set[str], code: Path, schema: str, stages: set[str]
) -> None:
    append(code / "store/catalogue.py", f'\nobject.__setattr__(SCHEMAS["{schema}"], "version", 2)\n')
    assert changed(pristine, always) == stages


@pytest.mark.parametrize(
    ("block", "stages"),
    [
        ({"report": {"title": "Another"}}, {"report"}),
        ({"partition": {"pef_min_correct": 1, "on_reject": "discard"}}, {"refine"}),
        ({"reference": {"topk_logprobs": 2}}, {"tensorise"}),
        ({"hardware": {"token_budget": 8192, "ranks": 2, "zero_stage": 3, "kv_cache_gib": 2}}, set()),
        ({"evaluate": {"bootstrap": {"replicates": 300}}}, {"make_tables"}),
        ({"scoring": {"sql": {"comparison": "spider", "answer": "bare"}, "math": {"workers": 1}}}, SCORED),
        ({"scoring": {"sql": {"comparison": "bird", "answer": "bare", "workers": 2}, "math": {"workers": 2}}}, set()),
        ({"train": {"trackers": ["tensorboard"]}}, set()),
        ({"engine": {"stages": SAMPLERS | {"rollouts": "vllm"}}}, {"train_segment"}),
        ({"engine": {"stages": SAMPLERS | {"refine": "vllm"}}}, set()),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_block_of_the_config_reruns_its_stages(
    pristine: Workflow, always: set[str], block: dict[str, Any], stages: set[str]
) -> None:
    assert changed(pristine.configured(**block), always) == stages


def test_a_second_file_of_the_configuration_reruns_the_stages_of_its_keys(pristine: Workflow, always: set[str]) -> None:
    assert changed(pristine.overlaid(reference={"topk_logprobs": 2}), always) == {"tensorise"}
    assert changed(pristine.overlaid(report={"title": "A"}).overlaid(report={"title": "B"}), always) == {"report"}


def test_a_removed_method_reruns_tables_and_pages_alone(pristine: Workflow) -> None:
    plan = pristine.overlaid(methods={"dph_js": None}).plan()
    assert "writing the report" in plan
    assert not [job for job in plan if job.startswith(("preparing", "sampling", "scoring", "evaluating", "training"))]


def test_removed_tables_are_made_again_without_a_training(finished: Workflow) -> None:
    tables = finished.results / "tables"
    files = [str(file.relative_to(finished.folder)) for file in tables.rglob("*") if file.is_file()]
    remove(tables)
    plan = finished.plan(*files)
    assert plan
    assert not [job for job in plan if job.startswith(("preparing", "sampling", "scoring", "evaluating", "training"))]


def test_with_one_seed_both_settings_of_the_draws_are_the_same_run(pristine: Workflow) -> None:
    assert pristine.configured(train={"draws": "shared"}).plan() == []


# In `make test-full` only: it trains a second seed.
@pytest.mark.full
def test_the_presamples_of_a_seed_rerun_the_trainings_of_that_seed_alone(finished: Workflow) -> None:
    of_others = {
        name: digest for name, digest in finished.digests().items() if name.startswith(("draws/", "policies/"))
    }
    two = finished.configured(train={"seeds": [1, 2]})
    two.run()
    # grpo rolls out all questions, so its second training needs no draw.
    assert two.stages()["train_segment"] == 4
    assert two.stages()["sample_draw"] == two.stages()["score_draw"] == 3
    digests = two.digests()
    assert digests.items() >= of_others.items()
    drawn = two.results / "draws/s2/rollouts/train.presample/0.parquet"
    assert drawn.read_bytes() != Path(str(drawn).replace("/s2/", "/main/")).read_bytes()
    plan = two.plan("--forcerun", str(drawn.relative_to(two.folder)))
    costly = [job for job in plan if job.startswith(("sampling", "training", "computing"))]
    assert "training dph_js, seed 2, up to step 2" in costly
    assert not [job for job in costly if not re.search("draw s2|dph_js, seed 2|dph_js-s2", job)]


def test_a_new_evaluation_set_reruns_nothing_of_the_others(pristine: Workflow) -> None:
    data = yaml.safe_load(pristine.config.read_text())
    plan = pristine.configured(
        datasets=data["datasets"] | {"cross": {"task": "sql", "source": "toy"}},
        evaluate={"datasets": ["in_domain", "maths", "cross"]},
    ).plan()
    made = [job for job in plan if job.startswith(("preparing", "sampling", "scoring", "evaluating", "training"))]
    assert made
    assert all("cross" in job for job in made)


def test_a_higher_temperature_draws_the_last_policies_again_and_nothing_else(pristine: Workflow) -> None:
    plan = pristine.overlaid(evaluate={"hotter": [1.5]}).plan()
    made = [job for job in plan if job.startswith(("preparing", "sampling", "scoring", "evaluating", "training"))]
    # Sampling, scoring and evaluating two policies on two sets.
    assert len(made) == 12
    assert all("step4/t1.5" in job for job in made)


def test_another_engine_for_the_evaluations_samples_those_again_and_no_others(
    pristine: Workflow, always: set[str]
) -> None:
    files = {
        file
        for file in listed(pristine.configured(engine={"stages": SAMPLERS | {"evaluate": "vllm"}})) - always
        if "timings/" not in file
    }
    assert files
    assert all(file.startswith("rollouts/") for file in files)


def test_comments_and_docstrings_rerun_nothing(pristine: Workflow, code: Path) -> None:
    for name in ("scoring/sql/scorer.py", "objective/ppo.py", "policy/requests.py", "evaluation/estimator.py"):
        module = code / name
        module.write_text(module.read_text().replace('"""', '"""Said otherwise: ', 1) + "\n# A remark.\n")
    assert pristine.plan() == []
