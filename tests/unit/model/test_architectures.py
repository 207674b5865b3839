"""Real architectures in bfloat16, cut to one or two layers, through the whole chain in at most 12 GiB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runs import ROOT

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "Llama-3.2-1B", "Llama-3.1-8B", "Qwen2.5-7B"])
def test_a_real_architecture_goes_from_the_reference_to_a_resumed_training(name: str, tmp_path: Path) -> None:
    found: dict[str, float] = {}
    for part in ("write", "train", "resume"):
        command = [sys.executable, str(ROOT / "tests/support/architecture.py"), name, str(tmp_path), part]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        of_part = json.loads(done.stdout.splitlines()[-1])
        print(name, part, of_part)
        assert of_part["peak GiB"] < 12
        found |= of_part
    # In bfloat16 two orders of sums differ; a wrong bias, head or position differs by nats.
    assert found["engine against reference"] < 0.3
    assert found["trainer against reference"] < 0.3
    assert found["canary"] < 0.3
    assert found["moved by training"] > 0.01
    assert found["resumed against continued"] < 1e-5
