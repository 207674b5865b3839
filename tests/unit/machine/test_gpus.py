"""Jobs on one machine get different GPUs, wait for them, and free them however they end."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from dphrl.machine.gpus import take_gpus

EIGHT = ",".join(map(str, range(8)))
JOB = """
import os, sys, time
from dphrl.machine.gpus import take_gpus
number, seconds = int(sys.argv[1]), float(sys.argv[2])
taken = take_gpus(number)
print(time.time(), os.environ.get("CUDA_VISIBLE_DEVICES", ""), flush=True)
time.sleep(seconds)
print(time.time(), flush=True)
"""


def job(number: int, cache: Path, seconds: float, visible: str = EIGHT) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", JOB, str(number), str(seconds)]
    environment = {"CUDA_VISIBLE_DEVICES": visible, "XDG_CACHE_HOME": str(cache)}
    environment |= {"PYTHONPATH": ":".join(sys.path), "PATH": ""}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def held(process: "subprocess.Popen[str]") -> tuple[float, float, list[str]]:
    """When a job took its GPUs and left them, and which."""
    out, problem = process.communicate(timeout=60)
    assert process.returncode == 0, problem
    (start, gpus), (end,) = (line.split() for line in out.splitlines())
    return float(start), float(end), gpus.split(",")


def test_no_two_jobs_hold_a_gpu_at_the_same_time(tmp_path):
    jobs = [held(one) for one in [job(number, tmp_path, 0.1) for number in (2, 4, 8, 3, 1)]]
    assert sorted(len(gpus) for *_, gpus in jobs) == [1, 2, 3, 4, 8]
    for i, (start, end, gpus) in enumerate(jobs):
        assert len({*gpus}) == len(gpus)
        for other_start, other_end, others in jobs[:i]:
            assert end <= other_start or other_end <= start or not {*gpus} & {*others}


def test_a_killed_job_frees_its_gpus(tmp_path):
    first = job(8, tmp_path, 600)
    assert first.stdout is not None
    assert first.stdout.readline()
    second = job(1, tmp_path, 0)
    time.sleep(0.5)
    assert second.poll() is None
    first.kill()
    first.wait()
    assert held(second)[2] == ["0"]


def test_a_job_that_needs_many_comes_before_later_ones(tmp_path):
    first = job(1, tmp_path, 1)
    assert first.stdout is not None
    assert first.stdout.readline()
    many = job(8, tmp_path, 0)
    assert many.stderr is not None
    assert many.stderr.readline() == "waiting for 8 of 8 GPUs\n"
    later = job(1, tmp_path, 0)
    assert held(many)[0] <= held(later)[0]
    first.wait()


def test_only_visible_gpus_are_taken(tmp_path):
    assert held(job(2, tmp_path, 0, "5,GPU-8932f937"))[2] == ["5", "GPU-8932f937"]


def test_too_few_gpus_are_named(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(ValueError, match=r"needs 4 GPUs, and this machine shows 2 \(0, 1\): lower hardware.ranks"):
        take_gpus(4)


@pytest.mark.parametrize(("number", "visible"), [(0, "0,1"), (2, ""), (2, "-1")])
def test_nothing_is_taken_without_need_or_gpus(tmp_path, monkeypatch, number, visible):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert take_gpus(number) == []
    assert not any(tmp_path.iterdir())


def test_locks_have_the_names_of_the_cards(tmp_path, monkeypatch):
    tool = tmp_path / "bin/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 0, GPU-aa\necho 1, GPU-bb\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/bin:/usr/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert take_gpus(1) == ["0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert take_gpus(1) == ["1"]
    locks = (tmp_path / "cache/dphrl/gpus").glob("*/*")
    assert {path.name for path in locks} == {"queue", "GPU-aa", "GPU-bb"}
