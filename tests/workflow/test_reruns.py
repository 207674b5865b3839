"""Which stages rerun after an edit, by dry runs of the real Snakefile on a finished run: these and no others.

Which stages import a module: tests/unit/store/test_what_reruns.py. Here each rule has its code and its blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from runs import Workflow, remove

from dphrl.report.figures import SECTIONS

pytestmark = pytest.mark.workflow

# The engine of the tiny run is vllm but for these.
SAMPLERS = dict.fromkeys(("presample", "evaluate", "rollouts"), "transformers")
COSTLY = ("preparing", "sampling", "scoring", "evaluating", "training", "computing")


def listed(workflow: Workflow) -> set[str]:
    """The files of which Snakemake says that a param differs from its value when they were made."""
    lines = workflow.run("--list-changes", "params").splitlines()
    return {line.partition("/tiny/")[2] for line in lines if "/tiny/" in line}


@pytest.fixture(scope="module")
def always(pristine: Workflow) -> set[str]:
    """What is listed of an unchanged run: Snakemake 9.27 names the last output of every job."""
    return listed(pristine)


@pytest.fixture(scope="module")
def rules(pristine: Workflow) -> dict[str, str]:
    """The rule of each file of the run, as Snakemake lists it."""
    rows = [line.split("\t") for line in pristine.run("--summary").splitlines() if line.startswith("results/tiny/")]
    return {file.removeprefix("results/tiny/"): rule for file, _, rule, *_ in rows}


def changed_files(workflow: Workflow, always: set[str]) -> set[str]:
    """The files of which code or config differs from what they were made with."""
    return {file for file in listed(workflow) - always if not file.startswith("timings/")}


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def test_edits_of_modules_a_template_and_a_schema_rerun_their_stages(
    pristine: Workflow, always: set[str], rules: dict[str, str], code: Path
) -> None:
    """Code of figures redraws those of its section only."""
    append(code / "training/segment.py", "\n_NEW = 1\n")
    append(code / "report/templates/report.html.j2", "\n<!-- new -->\n")
    append(code / "store/catalogue.py", '\nobject.__setattr__(SCHEMAS["rejected"], "version", 2)\n')
    append(code / "report/figures/solved.py", "\n_NEW = 1\n")
    files = changed_files(pristine, always)
    of_edits = {"train_segment", "report", "write_cards", "write_samples", "prepare_prompts", "figure"}
    assert {rules[file] for file in files} == of_edits
    drawn = {Path(file).stem for file in files if file.startswith("figures/")}
    assert len(drawn) > 1
    assert drawn == {name for name in SECTIONS["solved"] if (pristine.results / f"figures/{name}.svg").exists()}


def test_comments_code_outside_of_digests_and_keys_that_change_no_result_rerun_nothing(
    pristine: Workflow, code: Path
) -> None:
    for name in ("scoring/sql/scorer.py", "objective/ppo.py", "policy/requests.py", "evaluation/estimator.py"):
        module = code / name
        module.write_text(module.read_text().replace('"""', '"""Said otherwise: ', 1) + "\n# A remark.\n")
    for name in ("store/kinds.py", "config/blocks/training.py", "machine/progress.py"):
        append(code / name, "\n_NEW = 1\n")
    other = pristine.configured(
        hardware={"token_budget": 8192, "ranks": 2, "zero_stage": 3, "kv_cache_gib": 2},
        scoring={"sql": {"comparison": "bird", "answer": "bare", "workers": 2}, "math": {"workers": 2}},
        # With one seed both settings of the draws are the same run.
        train={"trackers": ["tensorboard"], "draws": "shared"},
        engine={"stages": SAMPLERS | {"refine": "vllm"}},
    )
    assert other.plan() == []


def test_blocks_of_the_config_and_of_further_files_rerun_their_stages_and_no_pre_sampling(
    pristine: Workflow, always: set[str], rules: dict[str, str]
) -> None:
    other = pristine.configured(
        scoring={"sql": {"comparison": "spider", "answer": "bare"}, "math": {"workers": 1}},
        evaluate={"against": ["base"]},
        partition={"pef_min_correct": 2, "on_reject": "discard"},
        engine={"stages": SAMPLERS | {"rollouts": "vllm"}},
    )
    expected = {"audit_gold", "score", "score_draw", "train_segment", "make_tables", "find_candidates", "refine"}
    # The last file takes back another length of prompts.
    first = other.overlaid(reference={"topk_logprobs": 2}, prompts={"max_tokens": 60})
    last = first.overlaid(report={"title": "B"}, prompts={"max_tokens": 64}, engine={"stages": {"evaluate": "vllm"}})
    changed = {rules[file] for file in changed_files(last, always)}
    assert changed == expected | {"tensorise", "report", "sample"}


def test_without_a_method_and_without_tables_no_sample_and_no_training_is_made_again(finished: Workflow) -> None:
    remove(finished.results / "tables")
    plan = finished.overlaid(methods={"dph_js": None}).plan()
    assert "writing the report" in plan
    assert not [job for job in plan if job.startswith(COSTLY)]


def test_a_run_that_grows_makes_what_is_new_and_nothing_again(pristine: Workflow) -> None:
    grown = pristine.overlaid(
        datasets={"cross": {"task": "sql", "source": "toy"}},
        train={"steps": 8, "seeds": [1, 2]},
        methods={"dph_f": {"divergence": "forward_kl", "eta": 0.1}},
        evaluate={"datasets": ["in_domain", "maths", "cross"], "hotter": [1.5]},
    )
    costly = [job for job in grown.plan() if job.startswith(COSTLY)]
    assert not {*costly}.intersection(pristine.plan("--forceall"))
    trained = Counter(job.rpartition(",")[0] for job in costly if job.startswith("training "))
    both, four = {"training grpo, seed 1": 2, "training dph_js, seed 1": 2}, {"training dph_f, seed 1": 4}
    assert trained == both | four | {f"training {name}, seed 2": 4 for name in ("grpo", "dph_js", "dph_f")}
    # Two seeds of three methods, drawn hotter after their last step, on three sets.
    assert sum(job.startswith("sampling") and "step8/t1.5" in job for job in costly) == 18


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
