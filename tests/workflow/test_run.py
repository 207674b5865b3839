"""The whole workflow runs on real engines, and reruns exactly what changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import peft
import polars as pl
import pytest
import yaml
from hub_server import Hub, serve
from huggingface_hub import ModelCard
from runs import Workflow
from transformers import AutoModelForCausalLM

from dphrl.policy.logprobs import load_model
from dphrl.report.audit import audit_run
from dphrl.report.figures import SECTIONS
from dphrl.store.files import visible_files
from dphrl.store.kinds import manifest_above
from dphrl.store.manifest import SUMS, read_manifest, read_sums
from dphrl.store.parquet import read_footer

pytestmark = pytest.mark.workflow

EXAMPLE = Path(__file__).parents[2] / "examples/own_functions.py"
SAMPLING = "sampling base on train (presample, draw main)"


def test_a_run_makes_every_artifact_and_the_audit_passes(pristine: Workflow) -> None:
    partition = pl.read_parquet(pristine.results / "draws/main/partition/final.parquet")
    assert partition.height == 48
    assert set(partition["subset"]) == {"pef", "exp"}
    assert audit_run(pristine.results).faults == {}
    assert "<svg" in (pristine.results / "figures/passk.svg").read_text()
    assert "<h1>tiny" in (pristine.results / "report/index.html").read_text()
    assert not list(pristine.results.rglob(".*.tmp"))
    assert not list((pristine.folder / "temporary").iterdir())


def test_the_list_of_a_run_has_every_file_that_its_rules_made(pristine: Workflow) -> None:
    """The list is made of the inputs of the audit, so that Snakemake makes each of them again where it is missing."""
    files = {file.relative_to(pristine.results) for file in visible_files(pristine.results)}
    assert {*map(Path, read_sums(pristine.results)), Path(SUMS)} == {file for file in files if file.parts[0] != "logs"}


def test_jobs_with_a_model_take_one_gpu_each_and_others_none(pristine: Workflow) -> None:
    logs: dict[str, list[list[str]]] = defaultdict(list)
    for path in pristine.results.rglob("*.log"):
        (taken,) = re.findall(r"^GPUs:(.*)$", path.read_text(errors="replace"), re.MULTILINE)
        place = path.relative_to(pristine.results / "logs").as_posix().replace("draws/main/", "draws/")
        logs[re.sub(r"^(draws/[^/]+|[^/]+).*", r"\1", place)].append(taken.split())
    with_model = [logs.pop(stage) for stage in ("rollouts", "train", "draws/rollouts", "draws/reference.log")]
    assert all(taken in (["0"], ["1"]) for stage in with_model for taken in stage)
    assert {gpu for stage in with_model for (gpu,) in stage} == {"0", "1"}
    assert not any(taken for stage in logs.values() for taken in stage)


def test_every_evaluated_policy_has_a_model_card_that_no_other_stage_reads(finished: Workflow) -> None:
    for method in ("grpo", "dph_js"):
        path = finished.results / f"cards/{method}-s1/step4.md"
        card = ModelCard.load(path)
        metrics = {(one.dataset_name, one.metric_type) for one in card.data.eval_results}
        assert {("in_domain", "pass@4"), ("maths", "greedy")} <= metrics
        assert f"results/tiny/policies/{method}-s1/step4.json --configfile" in card.text
    upload = shutil.copytree(finished.results / "policies/dph_js-s1/step4", finished.folder / "upload")
    shutil.copy(path, upload / "README.md")
    AutoModelForCausalLM.from_pretrained(upload)
    written = path.read_bytes()
    path.unlink()
    (finished.results / "SHA256SUMS").unlink()
    assert finished.plan() == ["auditing the artifacts", "writing model cards"]
    finished.run()
    assert path.read_bytes() == written


def test_footers_name_no_run_no_place_and_no_time(pristine: Workflow) -> None:
    for path in pristine.results.rglob("*.parquet"):
        if "timings" not in path.parts:
            text = str(read_footer(path))
            assert "tiny" not in text
            assert str(pristine.folder) not in text


def _maker(path: str) -> str:
    """A file, or the manifest that lists it; a declared folder has its manifest next to it."""
    return manifest_above(f"{path}/any") or path


def test_footers_name_the_inputs_that_the_rules_declare(pristine: Workflow) -> None:
    rows = [line.split("\t") for line in pristine.run("--detailed-summary").splitlines() if line.startswith("results/")]
    declared = {row[0]: row[4].split(",") for row in rows if row[2] != "audit"}
    compared = 0
    for output, inputs in declared.items():
        file = pristine.folder / output
        if file.suffix == ".parquet":
            footer = read_footer(file)
        elif file.with_suffix("").is_dir() and file.suffix == ".json":
            footer = read_manifest(file)
        else:
            continue  # a text, a figure, or a folder, whose manifest is another output
        if "inputs" in footer:
            # Timings differ between equal runs, so no footer has their digest.
            names = [name.removeprefix("results/tiny/") for name in inputs if "/timings/" not in name]
            recorded = {_maker(path) for read in footer["inputs"].values() for path in read["paths"]}
            assert recorded == {_maker(name) for name in names if name not in ("", "-")}, output
            compared += 1
    assert compared > 60


def test_a_second_run_does_nothing(finished: Workflow) -> None:
    assert "Nothing to be done" in finished.run()


@pytest.mark.full
def test_snakemakes_own_report_holds_the_figures(finished: Workflow) -> None:
    finished.run("--report", "report.zip")
    names = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", str(finished.folder / "report.zip")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert names.count(".svg") == len([*(finished.results / "figures").glob("*.svg")]) > 0
    assert all(name in names for name in ("claims.md", "headline.csv", "index.html"))


def test_a_threshold_reruns_the_partition_and_what_follows_but_no_pre_sampling(pristine: Workflow) -> None:
    changed = pristine.configured(partition={"pef_min_correct": 2})
    plan = changed.plan()
    assert {
        "dividing the training prompts of draw main",
        "writing the final partition of draw main",
        "sampling base on train (refine, draw main)",
    } <= set(plan)
    assert {"computing reference log-probs of draw main", "training grpo, seed 1, up to step 2"} <= set(plan)
    assert SAMPLING not in plan
    assert not any("presample" in job or "sampling base on in_domain" in job for job in plan)
    assert "computing reference log-probs of draw main" in changed.plan("reference")


def test_a_new_method_reruns_nothing_that_is_done(pristine: Workflow) -> None:
    plan = pristine.configured(methods={"dph_f": {"divergence": "forward_kl", "eta": 0.1}}).plan()
    trained = [job for job in plan if job.startswith("training ")]
    assert trained == ["training dph_f, seed 1, up to step 2", "training dph_f, seed 1, up to step 4"]
    assert all("dph_f" in job for job in plan if job.startswith("sampling "))


def test_a_divergence_and_an_advantage_of_the_user_are_a_method(finished: Workflow) -> None:
    example, mine = EXAMPLE.read_text(encoding="utf-8"), finished.folder / "mine.py"
    mine.write_text(example)
    method = {"divergence": "mine.py:hellinger", "advantage": "mine.py:centred", "eta": 1.0}
    own = finished.overlaid(methods={"hellinger": method})
    own.run("results/tiny/policies/hellinger-s1/step4.json")
    recorded = json.loads((own.results / "policies/hellinger-s1/step4.json").read_text())["inputs"]["function_0"]
    assert recorded == {"paths": ["mine.py"], "digest": hashlib.sha256(mine.read_bytes()).hexdigest()}
    assert "evaluating hellinger-s1/step4 on in_domain" in own.plan()
    mine.write_text(example.replace("torch.expm1(l / 2).square()", "2 * torch.expm1(l / 2).square()"))
    trained = [job for job in own.plan() if job.startswith("training")]
    assert trained == ["training hellinger, seed 1, up to step 2", "training hellinger, seed 1, up to step 4"]
    mine.write_text(example.replace("torch.expm1(l / 2).square()", "torch.expm1(l / 2).detach().square()"))
    assert own.start("--dry-run").wait() == 1
    assert "methods.hellinger.divergence" in own.output()
    mine.unlink()
    assert own.start("--dry-run").wait() == 1
    assert "a file that exists" in own.output()


@pytest.mark.parametrize("hotter", [[], pytest.param([1.5], marks=pytest.mark.full)])
def test_checkpoints_are_evaluated_next_to_their_base_and_nothing_is_trained(
    finished: Workflow, monkeypatch: pytest.MonkeyPatch, hotter: list[float]
) -> None:
    base = finished.results / "policies/base"
    trained = {name: f"results/tiny/policies/{name}-s1/step4" for name in ("grpo", "dph_js")}
    adapter = peft.get_peft_model(load_model(base, "float32"), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    adapter.save_pretrained(finished.folder / "adapter")
    # The base and the questions are on the hub. Style rules stay, for a task that is not evaluated.
    data = yaml.safe_load(finished.config.read_text()) | {"run": "checked", "policy": {"base": "org/base"}}
    data["datasets"] = {"maths": {"task": "math", "source": "hf://datasets/org/data/maths.jsonl"}}
    data["evaluate"]["datasets"] = ["maths"]
    data["checkpoints"] = {"ours": [*trained.values()], "lora": "adapter"}
    data["evaluate"]["hotter"] = hotter
    del data["methods"], data["train_dataset"], data["toy"]
    path = finished.folder / "checked.yaml"
    path.write_text(yaml.safe_dump(data))
    checked = replace(finished, config=path, name="checked")
    monkeypatch.setenv("HF_HOME", str(finished.folder / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    folders = {"org/base": base, "datasets/org/data": finished.results / "toy/questions"}
    with serve(Hub(folders)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        checked.run()
        stages = checked.stages()
        assert (stages["fetch"], stages["import_model"]) == (2, 4)
        hub.commits["org/base"] = "2" * 40
        assert "Nothing to be done" in checked.run()
    assert not {"train_base", "train_segment", "find_candidates", "tensorise"} & stages.keys()
    assert not (checked.results / "draws").exists()
    assert audit_run(checked.results).faults == {}
    weights = [checked.results / f"policies/ours-s{seed}/step0/model.safetensors" for seed in (1, 2)]
    assert [file.read_bytes() for file in weights] == [
        (finished.folder / place / "model.safetensors").read_bytes() for place in trained.values()
    ]
    # The digests of adapter and base are in the manifest.
    read = read_manifest(checked.results / "policies/lora.json")["inputs"]
    assert {name: one["paths"] for name, one in read.items()} == {
        "base": ["policies/base.json"],
        "files": ["adapter_config.json", "adapter_model.safetensors"],
    }
    # The footers of a run by names are those of a run with folders.
    prompts = [pl.read_parquet(one.results / "prompts/maths.parquet") for one in (finished, checked)]
    assert prompts[0].equals(prompts[1])
    compared = pl.read_parquet(checked.results / "tables/comparisons.parquet").filter(against="base")
    assert dict(compared.select("method", "seeds").unique().iter_rows()) | {"base_itself": 1} == {
        "ours": 2,
        "lora": 1,
        "base_itself": 1,
    }
    for temperature in hotter:
        hot = checked.results / f"rollouts/ours-s2/step0/t{temperature}/maths.evaluate/0.parquet"
        assert read_footer(hot)["config"]["plan"]["temperature"] == temperature
        assert pl.read_parquet(hot)["sample_index"].min() == 0
    kept = (path for path in checked.results.rglob("*") if path.is_file() and path.suffix in {".json", ".log", ".html"})
    assert not any("hf_secret" in file.read_text(errors="replace") for file in kept)


def test_a_division_made_elsewhere_gives_the_same_partition_without_pre_samples(finished: Workflow) -> None:
    drawn = pl.read_parquet(finished.results / "draws/main/partition/candidates.parquet")
    files = {}
    for subset in ("pef", "exp"):
        files[subset] = f"{subset}.jsonl"
        drawn.filter(subset=subset).select("prompt_id").write_ndjson(finished.folder / files[subset])
    data = yaml.safe_load(finished.config.read_text()) | {"run": "given", "methods": {}}
    data |= {"policy": {"base": "results/tiny/policies/base"}, "partition": {"given": files}}
    path = finished.folder / "given.yaml"
    path.write_text(yaml.safe_dump(data))
    divided = replace(finished, config=path, name="given")
    divided.run("reference")
    assert not (divided.results / "draws/main/rollouts/train.presample").exists()
    final, other = (pl.read_parquet(one.results / "draws/main/partition/final.parquet") for one in (finished, divided))
    assert other.select("prompt_id", "subset").equals(final.select("prompt_id", "subset"))
    stored = [one.results / "draws/main/reference/responses.safetensors" for one in (finished, divided)]
    assert stored[0].read_bytes() == stored[1].read_bytes()


def test_more_steps_and_seeds_go_on_from_what_is_done(pristine: Workflow) -> None:
    trained = [job for job in pristine.configured(train={"steps": 8}).plan() if job.startswith("training ")]
    assert [job.rsplit(" ", 1)[1] for job in trained] == ["6", "8", "6", "8"]
    trained = [job for job in pristine.configured(train={"seeds": [1, 2]}).plan() if job.startswith("training ")]
    assert {job.split(", ")[1] for job in trained} == {"seed 2"}


@pytest.mark.full
def test_only_the_newest_state_and_the_evaluated_policies_stay(finished: Workflow) -> None:
    short = finished.configured(methods={"short": {"rollout_on": "all"}}, train={"segment_steps": 1})
    end = "results/tiny/policies/short-s1/step{}.json"
    short.run(end.format(4))
    assert {path.name for path in (finished.results / "states/short-s1").iterdir()} == {"step4", "step4.json"}
    assert {path.name for path in (finished.results / "policies/short-s1").iterdir()} == {"step4", "step4.json"}
    assert len([*(finished.results / "train/short-s1").glob("*/metrics.parquet")]) == 4
    assert "Nothing to be done" in short.run(end.format(4))
    more = short.configured(train={"steps": 8}).plan(end.format(8))
    assert [job[-1] for job in more if "training short" in job] == ["5", "6", "7", "8"]
    audited = audit_run(finished.results)
    assert audited.faults == {}


def test_code_of_figures_redraws_the_figures_of_its_section_only(finished: Workflow, code: Path) -> None:
    module = code / "report" / "figures" / "solved.py"
    section = {name for name in SECTIONS["solved"] if (finished.results / f"figures/{name}.svg").exists()}
    assert len(section) > 1
    module.write_text(module.read_text() + "\n_NEW = 1\n")
    drawing = {f"drawing the figure {name}" for name in section}
    assert set(finished.plan()) == {*drawing, "writing the report", "auditing the artifacts"}
    before = {path: path.stat().st_mtime_ns for path in (finished.results / "figures").iterdir()}
    finished.run()
    redrawn = {path.name for path, time in before.items() if path.stat().st_mtime_ns != time}
    assert redrawn == {f"{name}.{form}" for name in section for form in ("json", "svg")}


@pytest.mark.full
def test_one_more_segment_boundary_changes_no_bit(finished: Workflow, tmp_path: Path) -> None:
    whole = finished.configured(train={"segment_steps": 4})
    for method in ("grpo", "dph_js"):
        for name in ("policies", "states"):
            (finished.results / name / f"{method}-s1").rename(tmp_path / f"{name}-{method}")
    whole.run("train")
    for method in ("grpo", "dph_js"):
        for name, file in (("policies", "model.safetensors"), ("states", "optimizer-000.safetensors")):
            again = (finished.results / name / f"{method}-s1" / "step4" / file).read_bytes()
            assert again == (tmp_path / f"{name}-{method}" / "step4" / file).read_bytes()
