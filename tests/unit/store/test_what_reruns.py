"""Which stages rerun after an edit of the code: the digest of a stage covers what its script imports, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dphrl.report import figures
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.code import code_of
from dphrl.store.kinds import KINDS, TABLES

ROOT = Path(__file__).parents[3]
STAGES = sorted(file.stem for file in (ROOT / "workflow_scripts/stages").glob("*.py"))
SAMPLED = {"sample", "train_segment"}
SCORED = {"audit_gold", "score", "train_segment"}
# A module, and the stages that depend on it. What follows from these stages reruns too.
EDITS: dict[str, set[str]] = {
    "dphrl.store.kinds": set(),
    "dphrl.store.parquet": set(),
    "dphrl.config.slices": set(),
    # Descriptions of keys are here.
    "dphrl.config.blocks.training": set(),
    "dphrl.machine.progress": set(),
    "dphrl.report.contents": set(),
    "dphrl.data.overlap": {"find_overlap"},
    "dphrl.data.ground_truth": {"prepare_prompts", "audit_gold"},
    "dphrl.data.prompts": {"prepare_prompts", "train_base"},
    "dphrl.data.partition": {"find_candidates", "refine"},
    "dphrl.data.partition_counts": {"find_candidates", "refine", "tensorise", "train_segment", "audit"},
    "dphrl.policy.vllm_engine": SAMPLED,
    "dphrl.policy.transformers_engine": SAMPLED,
    "dphrl.policy.decoding": SAMPLED,
    "dphrl.policy.requests": SAMPLED,
    "dphrl.policy.replay": {"sample"},
    "dphrl.policy.logprobs": {"import_model", "mix", "train_base", "sample", "tensorise", "train_segment"},
    "dphrl.policy.mixture": {"mix"},
    "dphrl.scoring.sql.compare": SCORED,
    "dphrl.scoring.math.answers": SCORED,
    "dphrl.training.reference": {"tensorise"},
    "dphrl.training.stored_responses": {"train_segment"},
    "dphrl.training.segment": {"train_segment"},
    "dphrl.training.supervised": {"train_base"},
    "dphrl.objective.ppo": {"train_segment"},
    "dphrl.toy.world": {"build_world"},
    "dphrl.toy.base_model": {"train_base"},
    "dphrl.evaluation.per_prompt": {"evaluate_policy"},
    "dphrl.evaluation.claims": {"make_tables", "write_report"},
    "dphrl.evaluation.interval": {"make_tables", "write_report"},
    "dphrl.report.sentences": {"make_tables"},
    "dphrl.report.audit_between": {"audit"},
    "dphrl.report.sample_pages": {"write_samples"},
    "dphrl.report.figures.solved": {"figure"},
    "dphrl.report.render": {"write_report", "write_samples", "write_cards"},
    "script": set(STAGES),
}


def rules() -> dict[str, str]:
    """The text of the rule with each script, by the name of the script."""
    heads = r"^ *(?:use rule \w+ as \w+ with|(?:rule|checkpoint) \w+):$"
    texts = [
        text
        for file in (ROOT / "rules").glob("*.smk")
        for text in re.split(heads, file.read_text("utf-8"), flags=re.MULTILINE)
    ]
    return {name: text for text in texts for name in re.findall(r"workflow_scripts/stages/(\w+)\.py", text)}


@pytest.fixture(scope="module")
def code() -> dict[str, set[str]]:
    """The scripts and modules of each stage."""
    of_figures = [figures.module(name) for section in figures.SECTIONS.values() for name in section]
    return {stage: code_of([f"{stage}.py", *(of_figures if stage == "figure" else [])]) for stage in STAGES}


def test_an_edit_reruns_the_stages_that_import_it_and_no_others(code: dict[str, set[str]]) -> None:
    outside = [f"{name.replace('.', '/')}.py" for name, stages in EDITS.items() if not stages]
    assert all((ROOT / "workflow_scripts" / file).is_file() for file in outside)
    assert {name: {stage for stage in STAGES if name in code[stage]} for name in EDITS} == EDITS


def test_each_rule_has_the_digest_of_its_own_script() -> None:
    digests = {name: re.findall(r'\bcode\("(\w+)\.py"', text) for name, text in rules().items()}
    assert digests == {name: [name] for name in STAGES}


def test_a_new_schema_reruns_the_stage_that_writes_it() -> None:
    for name, text in rules().items():
        outputs = "".join(re.findall(r"^ +output:$(.*?)^ +log:$", text, re.DOTALL | re.MULTILINE))
        written = {kind.schema for kind in KINDS.values() if f'"<results>/{kind.path}"' in outputs} & SCHEMAS.keys()
        lists = "".join(re.findall(r"schemas=(\[.*?\]|TABLES)", text))
        assert set(TABLES if lists == "TABLES" else re.findall(r"\w+", lists)) >= written, name
        assert bool(lists) >= bool(written), name
