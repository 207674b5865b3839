"""Base models: a user's is refused before any sample if it is not whole; the shipped one can be made again."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from base_figures import DEFAULT, base_figures
from runs import TINY, Workflow
from safetensors.torch import load_file, save_file
from tiny_models import write_tiny_policy

from dphrl.report.audit import audit_run
from dphrl.store.files import parts_folder

pytestmark = pytest.mark.workflow


def test_a_base_model_that_lacks_a_tensor_is_refused(untrained: Workflow) -> None:
    base = untrained.folder / "model"
    tensors = load_file(base / "model.safetensors")
    del tensors["model.layers.0.mlp.down_proj.weight"]
    save_file(tensors, base / "model.safetensors", {"format": "pt"})
    assert untrained.start("results/tiny/policies/base.json").wait() != 0
    message = "its weights are not those of the model in config.json: no model.layers.0.mlp.down_proj.weight"
    assert f"{base}: {message}" in untrained.output()
    assert not (untrained.results / "policies/base").exists()


@pytest.mark.full
def test_the_shipped_base_can_be_made_again_from_nothing(project: Path, tmp_path: Path) -> None:
    # Another kind of machine sums in another order, so figures are compared and not bytes.
    config = yaml.safe_load(DEFAULT.read_text()) | {"policy": {"base": None}}
    workflow = Workflow.of(project, tmp_path, config, config["run"])
    workflow.run("results/demo/policies/base.json")
    made = base_figures(workflow.results / "policies/base", tmp_path / "databases")
    shipped = base_figures(DEFAULT.parent / "world-1", tmp_path / "databases")
    counts = {"styles", "radii"}
    assert {name: made[name] for name in counts} == pytest.approx({name: shipped[name] for name in counts}, abs=0.3)
    assert {name: made[name] for name in made.keys() - counts} == pytest.approx(
        {name: shipped[name] for name in shipped.keys() - counts}, abs=8
    )


@pytest.mark.full
def test_a_killed_supervised_start_ends_in_the_same_bytes_and_is_audited(
    project: Path, code: Path, tmp_path: Path
) -> None:
    """In a run that only evaluates; unit tests interrupt the training at chosen steps."""
    module = code / "training/supervised.py"
    module.write_text(re.sub(r"_BETWEEN_STATES: Final = .*", "_BETWEEN_STATES: Final = 0.0", module.read_text()))
    write_tiny_policy(tmp_path / "small")
    rows = [json.dumps({"prompt": f"q {letter}", "response": letter * 4}) + "\n" for letter in "abcdefghij"]
    (tmp_path / "rows.jsonl").write_text("".join(rows))
    start = {"source": "rows.jsonl", "steps": 300, "batch": 4, "dtype": "float32", "threads": 1}
    config = yaml.safe_load(TINY.read_text()) | {"methods": {}, "prompts": {"template": "plain", "max_tokens": 200}}
    config |= {"policy": {"base": "small", "supervised": start}}
    config["engine"]["max_model_len"] = 256
    del config["train_dataset"]
    run = Workflow.of(project, tmp_path, config)
    table, weights = run.results / "train/base/supervised.parquet", run.results / "policies/base/model.safetensors"
    process = run.start()
    state = parts_folder(weights.parent) / "state.safetensors"
    while not state.exists():
        assert process.poll() is None, run.output()
    run.kill(process)
    assert not table.exists()
    run.run()
    assert not state.parent.exists()
    assert pl.read_parquet(table)["step"].to_list() == [*range(1, 301)]
    audit = audit_run(run.results)
    assert audit.faults == {}
    assert audit.listed is not None
    assert "train/base/supervised.parquet" in audit.listed
    continued = table.read_bytes(), weights.read_bytes()
    table.unlink()
    run.run(str(table.relative_to(tmp_path)))
    assert (table.read_bytes(), weights.read_bytes()) == continued
    # Other rows are learnt anew; the model before them is taken as it is.
    (tmp_path / "rows.jsonl").write_text("".join(rows[1:]))
    assert run.plan(str(table.relative_to(tmp_path))) == ["training the base model"]
