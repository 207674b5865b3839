"""The tests of `tests/gpu` and `make gpu-check`: what runs on a GPU, without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from engine_suite import CHECKS

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ["transformers-float32", "transformers-bfloat16", "vllm-bfloat16"]
# Their tests make engines in child processes.
WITH_CHILDREN = ("tests/gpu/test_batch_invariance.py", "tests/gpu/test_training.py")


@pytest.mark.full
def test_each_engine_is_made_once_and_none_lives_while_a_child_process_makes_another() -> None:
    """On CUDA a second vLLM of a process fails, and one in a child process needs the memory of the first."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "--setup-plan", "tests/gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    made: list[str] = []
    alive: set[str] = set()
    tests: list[str] = []
    for line in done.stdout.splitlines():
        if step := re.search(r"(SETUP|TEARDOWN) +M made\b.*\['([\w-]+)'\]", line):
            if step[1] == "SETUP":
                made.append(step[2])
                alive.add(step[2])
            else:
                alive.remove(step[2])
        elif test := re.search(r"(tests/gpu/\w+\.py)::(\w+)", line):
            tests.append(test[2])
            assert len(alive) <= 1, line
            assert not (alive and test[1] in WITH_CHILDREN), line
    assert made == ENGINES
    assert tests.count("test_what_every_engine_does") == len(ENGINES) * len(CHECKS)
    invariance = tests.index("test_with_batch_invariance_a_response_of_vllm_does_not_depend_on_others")
    assert invariance < tests.index("test_what_every_engine_does")


@pytest.mark.parametrize(("tests", "benchmark", "status"), [(0, 0, 0), (1, 0, 2), (0, 1, 2)], ids=str)
def test_gpu_check_runs_the_benchmark_even_if_tests_fail_and_reports_both(
    tests: int, benchmark: int, status: int, tmp_path: Path
) -> None:
    """With a `python` that records its arguments; make itself ends with status 2."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'case "$*" in *pytest*) exit {tests} ;; *) exit {benchmark} ;; esac\n'
    )
    python.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", "-s", "gpu-check", f"BIN={tmp_path}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        "-m pytest -q -m gpu tests/gpu",
        "dev/benchmarks/gpu.py --engine vllm",
    ]
