"""Settings of Snakemake's process, and of a job before it imports torch."""

import os
import subprocess
import sys
from ctypes.util import find_library

import pytest

from dphrl.machine.settings import tune_job, tune_launcher


@pytest.mark.parametrize("before", [None, "", "libm.so.6"])
def test_jobs_use_tcmalloc_where_the_machine_has_it_unless_the_variable_is_set(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    monkeypatch.setattr(os, "environ", others if before is None else others | {"LD_PRELOAD": before})
    tune_launcher()
    assert os.environ.get("LD_PRELOAD") == (find_library("tcmalloc_minimal") if before is None else before)


@pytest.mark.parametrize(
    ("given", "parts", "expected"),
    [
        ({}, 1, {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
        ({}, 2, {}),
        *(({name: ""}, 1, {name: ""}) for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")),
    ],
)
def test_blocks_of_memory_grow_unless_the_user_or_a_shared_engine_wants_other_ones(
    given: dict[str, str], parts: int, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    monkeypatch.setattr(os, "environ", {k: v for k, v in os.environ.items() if k not in names} | given)
    tune_job(1, parts)
    assert {name: os.environ[name] for name in names if name in os.environ} == expected


def test_a_script_chooses_the_allocator_before_torch_is_imported() -> None:
    """PyTorch reads the variable when it starts; what all scripts share is imported before their libraries."""
    imported = "import sys, dphrl.machine.gpus, dphrl.machine.progress, dphrl.machine.cause, dphrl.machine.settings"
    check = f"{imported}, dphrl.config.blocks.sampling, dphrl.store.stage; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], env={"PYTHONPATH": ":".join(sys.path), "PATH": ""}, check=True)
