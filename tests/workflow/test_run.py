"""The whole workflow runs on real engines, and reruns exactly what changed."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
from dphrl.store.files import sha256_file, visible_files
from dphrl.store.kinds import manifest_above
from dphrl.store.manifest import SUMS, read_manifest, read_sums
from dphrl.store.parquet import read_footer

pytestmark = pytest.mark.workflow

EXAMPLE = Path(__file__).parents[2] / "examples/own_functions.py"


def test_a_run_makes_every_artifact_and_the_audit_passes(pristine: Workflow) -> None:
    partition = pl.read_parquet(pristine.results / "draws/main/partition/final.parquet")
    assert partition.height == 48
    assert set(partition["subset"]) == {"pef", "exp"}
    assert audit_run(pristine.results).faults == {}
    assert "<svg" in (pristine.results / "figures/passk.svg").read_text()
    assert "<h1>tiny" in (pristine.results / "report/index.html").read_text()
    assert not list(pristine.results.rglob(".*.tmp"))
    assert not list((pristine.folder / "temporary").iterdir())


def test_the_notebook_draws_pass_at_k_and_finds_what_a_policy_lost(
    pristine: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN", str(pristine.results))
    names: dict[str, Any] = {}
    for cell in json.loads(EXAMPLE.with_name("read_a_run.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert set(names["means"]["method"]) == {"base", "grpo", "dph_js"}
    base, tuned = (
        dict(
            pl.read_parquet(pristine.results / f"evaluation/{name}/{names['dataset']}.parquet")["prompt_id", "c"].rows()
        )
        for name in ("base", names["policy"])
    )
    assert set(names["lost"]["prompt_id"]) == {prompt for prompt in base if base[prompt] and not tuned[prompt]}


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
    path.unlink()
    (finished.results / "SHA256SUMS").unlink()
    assert finished.plan() == ["auditing the artifacts", "writing model cards"]


def test_footers_name_no_run_no_place_and_no_time(pristine: Workflow) -> None:
    for path in pristine.results.rglob("*.parquet"):
        if "timings" not in path.parts:
            text = str(read_footer(path))
            assert "tiny" not in text
            assert str(pristine.folder) not in text


def test_no_log_nor_artifact_holds_the_environment(pristine: Workflow) -> None:
    files = [path for path in pristine.folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" for path in files)
    assert [path for path in files if b"s3cr3t-of-the-environment" in path.read_bytes()] == []


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


@pytest.mark.full
def test_snakemakes_own_report_holds_the_figures(finished: Workflow) -> None:
    finished.run("--report", "report.zip")
    with ZipFile(finished.folder / "report.zip") as file:
        names = " ".join(file.namelist())
    assert names.count(".svg") == len([*(finished.results / "figures").glob("*.svg")]) > 0
    assert all(name in names for name in ("claims.csv", "headline.csv", "index.html"))


def test_a_divergence_and_an_advantage_of_the_user_are_a_method_that_is_mixed_with_the_base(finished: Workflow) -> None:
    example, mine = EXAMPLE.read_text(encoding="utf-8"), finished.folder / "mine.py"
    mine.write_text(example)
    remedies = shutil.copy(EXAMPLE.with_name("remedies.py"), finished.folder)
    needs = {"advantage": "remedies.py:alpha_dpg", "advantage_needs": ["base", "logprobs", "reference"]}
    rehearsed = {"rehearse": "boundary", "rows_per_question": 2}
    own = finished.overlaid(
        methods={"hellinger": {"divergence": "mine.py:hellinger", "eta": 1.0, **needs, **rehearsed}}
        | dict.fromkeys(("grpo", "dph_js")),
        evaluate={"datasets": ["in_domain"], "mixtures": [0.5]},
    )
    own.run()
    assert own.stages()["mix"] == 1
    assert audit_run(own.results).faults == {}
    stored = pl.read_parquet(own.results / "draws/main/reference-boundary2/index.parquet")
    partition = pl.read_parquet(own.results / "draws/main/partition/final.parquet")
    on_boundary = partition.filter((pl.col("c") > 0) & (pl.col("c") < pl.col("n")))["prompt_id"].to_list()
    assert stored["prompt_id"].unique().sort().to_list() == on_boundary != []
    trained = read_manifest(own.results / "policies/hellinger-s1/step4.json")["inputs"]
    for name, file in (("function_0", mine), ("function_1", Path(remedies))):
        assert trained[name] == {"paths": [file.name], "digest": sha256_file(file)}
    assert "hellinger-m50" in pl.read_parquet(own.results / "tables/passk.parquet")["method"]
    # Another divergence trains anew, from the first step on; one that cannot be trained with is refused.
    mine.write_text(example.replace("torch.expm1(l / 2).square()", "2 * torch.expm1(l / 2).square()"))
    segments = [f"training hellinger, seed 1, up to step {step}" for step in (2, 4)]
    assert [job for job in own.plan() if job.startswith("training")] == segments
    mine.write_text(example.replace("torch.expm1(l / 2).square()", "torch.expm1(l / 2).detach().square()"))
    assert own.start("--dry-run").wait() == 1
    assert "methods.hellinger.divergence" in own.output()


def _checkpoints(finished: Workflow, *methods: str, **evaluate: object) -> Workflow:
    """A run of trained policies of a finished run and of an adapter, as checkpoints of a base and data on the hub."""
    adapter = peft.get_peft_model(
        load_model(finished.results / "policies/base", "float32"), peft.LoraConfig(r=2, target_modules=["q_proj"])
    )
    adapter.save_pretrained(finished.folder / "adapter")
    # Style rules stay, for a task that is not evaluated.
    data = yaml.safe_load(finished.config.read_text()) | {"run": "checked", "policy": {"base": "org/base"}}
    data["datasets"] = {"maths": {"task": "math", "source": "hf://datasets/org/data/maths.jsonl"}}
    data["evaluate"] |= {"datasets": ["maths"], **evaluate}
    data["checkpoints"] = {"ours": [f"results/tiny/policies/{name}-s1/step4" for name in methods], "lora": "adapter"}
    del data["methods"], data["train_dataset"], data["toy"]
    path = finished.folder / "checked.yaml"
    path.write_text(yaml.safe_dump(data))
    return replace(finished, config=path, name="checked")


@pytest.fixture
def hub(finished: Workflow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with the base and the questions of the finished run."""
    folders = {"org/base": "policies/base", "datasets/org/data": "toy/questions"}
    monkeypatch.setenv("HF_HOME", str(finished.folder / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub = Hub({name: finished.results / folder for name, folder in folders.items()})
    with serve(hub) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield hub


def test_checkpoints_are_evaluated_next_to_their_base_and_nothing_is_trained(finished: Workflow, hub: Hub) -> None:
    checked = _checkpoints(finished, "grpo")
    table = "tables/comparisons.parquet"
    checked.run(f"results/checked/{table}")
    stages = checked.stages()
    assert (stages["fetch"], stages["import_model"]) == (2, 3)
    assert not {"train_base", "train_segment", "find_candidates", "tensorise"} & stages.keys()
    hub.commits["org/base"] = "2" * 40
    assert "Nothing to be done" in checked.run(f"results/checked/{table}")
    trained = finished.results / "policies/grpo-s1/step4/model.safetensors"
    assert (checked.results / "policies/ours-s1/step0/model.safetensors").read_bytes() == trained.read_bytes()
    # The digests of adapter and base are in the manifest.
    read = read_manifest(checked.results / "policies/lora.json")["inputs"]
    assert {name: entry["paths"] for name, entry in read.items()} == {
        "base": ["policies/base.json"],
        "files": ["adapter_config.json", "adapter_model.safetensors"],
    }
    # The footers of a run by names are those of a run with folders.
    prompts = [pl.read_parquet(run.results / "prompts/maths.parquet") for run in (finished, checked)]
    assert prompts[0].equals(prompts[1])
    compared = pl.read_parquet(checked.results / table).filter(against="base").select("method", "seeds").unique()
    assert {"ours": 1, "lora": 1}.items() <= dict(compared.iter_rows()).items()
    kept = (path for path in checked.results.rglob("*") if path.is_file() and path.suffix in {".json", ".log"})
    assert not any("hf_secret" in file.read_text(errors="replace") for file in kept)


@pytest.mark.full
@pytest.mark.usefixtures("hub")
def test_a_list_of_checkpoints_is_seeds_which_are_drawn_hotter_and_pass_the_audit(finished: Workflow) -> None:
    checked = _checkpoints(finished, "grpo", "dph_js", hotter=[1.5])
    checked.run()
    weights = [checked.results / f"policies/ours-s{seed}/step0/model.safetensors" for seed in (1, 2)]
    trained = [finished.results / f"policies/{name}-s1/step4/model.safetensors" for name in ("grpo", "dph_js")]
    assert [file.read_bytes() for file in weights] == [file.read_bytes() for file in trained]
    compared = pl.read_parquet(checked.results / "tables/comparisons.parquet").filter(method="ours", against="base")
    assert set(compared["seeds"]) == {2}
    assert not (checked.results / "draws").exists()
    assert audit_run(checked.results).faults == {}
    hot = checked.results / "rollouts/ours-s2/step0/t1.5/maths.evaluate/0.parquet"
    assert read_footer(hot)["config"]["plan"]["temperature"] == 1.5
    assert pl.read_parquet(hot)["sample_index"].min() == 0
    assert not any("hf_secret" in file.read_text() for file in checked.results.rglob("*.html"))


def test_a_division_made_elsewhere_gives_the_same_partition_without_pre_samples(finished: Workflow) -> None:
    candidates = finished.results / "draws/main/partition/candidates.parquet"
    drawn = pl.read_parquet(candidates).select("prompt_id", "subset")
    files = {}
    for subset in ("pef", "exp"):
        files[subset] = f"{subset}.jsonl"
        drawn.filter(subset=subset).select("prompt_id").write_ndjson(finished.folder / files[subset])
    shutil.rmtree(finished.results / "draws")
    divided = finished.configured(partition={"given": files})
    divided.run(str(candidates.relative_to(finished.folder)))
    assert divided.stages() == {"find_candidates": 1}
    assert pl.read_parquet(candidates).select("prompt_id", "subset").equals(drawn)
    assert "sampling base on train (refine, draw main)" in divided.plan("reference")
