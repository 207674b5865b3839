"""vLLM with `engine.batch_invariant`, in a child process.

pytest runs this module before `test_engines.py`, so no other engine lives meanwhile. Needs torch, transformers, polars,
pydantic and vllm.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

for _library in ("polars", "pydantic"):
    pytest.importorskip(_library)

import batch_invariant_engine

pytestmark = pytest.mark.gpu


def test_with_batch_invariance_a_response_of_vllm_does_not_depend_on_others(tmp_path: Path) -> None:
    pytest.importorskip("vllm")
    subprocess.run([sys.executable, str(batch_invariant_engine.__file__), str(tmp_path)], check=True)
