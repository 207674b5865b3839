"""Kills at random moments, a full disk, a removed database: the same command ends in the same bytes."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from runs import TINY, Workflow, remove

pytestmark = [pytest.mark.workflow, pytest.mark.full]

KILLS = 14
LATEST_S = 16.0
# Where a disturbed run starts: the files that are removed from a finished one.
TRAINED = ["train", "states", "policies/grpo-s1", "policies/dph_js-s1", "evaluation", "tables", "SHA256SUMS"]
BEGINNINGS = {
    "the world": ["."],
    "sampling": ["draws", "rollouts", "verdicts", *TRAINED],
    "training": TRAINED,
}
# Part of a victim's command line; the process of Snakemake is that which the test started.
VICTIMS = {
    "stage": "/.snakemake/scripts/",
    "worker": "dphrl.scoring.workers.worker",
    "rank": "dphrl.policy.rank_process",
}
FIRST_MIB, MORE_MIB = 4, 6


@pytest.fixture(scope="module")
def undisturbed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A finished run with two ranks and two scoring workers, with the engine that starts faster."""
    tiny = Workflow(project, tmp_path_factory.mktemp("undisturbed"), TINY)
    workflow = tiny.configured(
        engine={"name": "transformers"},
        hardware={"ranks": 2},
        scoring={"sql": {"comparison": "bird", "answer": "bare", "workers": 2}},
    )
    workflow.run()
    return workflow


def finish(run: Workflow, undisturbed: Workflow) -> None:
    """Run to the end and compare."""
    run.run()
    assert run.digests() == undisturbed.digests()
    assert not list(run.results.rglob(".*.tmp"))
    shutil.rmtree(run.folder)


def processes(process: subprocess.Popen[str]) -> dict[str, list[psutil.Process]]:
    """The processes of a run by kind."""
    found: dict[str, list[psutil.Process]] = {name: [] for name in VICTIMS}
    try:
        snakemake = psutil.Process(process.pid)
        for child in snakemake.children(recursive=True):
            command = " ".join(child.cmdline())
            for name, mark in VICTIMS.items():
                if mark in command:
                    found[name].append(child)
    except psutil.Error:
        return {name: [] for name in ("snakemake", *VICTIMS)}
    return {"snakemake": [snakemake], **found}


def remove_from(run: Workflow, beginning: str) -> None:
    """Remove the files that a disturbed run makes from its start on."""
    for name in BEGINNINGS[beginning]:
        remove(run.results / name)


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_kills_at_random_moments(undisturbed: Workflow, tmp_path: Path, beginning: str) -> None:
    chance, run = random.Random(beginning), undisturbed.copied(tmp_path / "run")
    remove_from(run, beginning)
    kinds, kills = ["snakemake", *VICTIMS], 0
    process = run.start()
    while kills < KILLS:
        victim, moment = chance.choice(kinds), time.monotonic() + chance.uniform(0, LATEST_S)
        while process.poll() is None and (time.monotonic() < moment or not processes(process)[victim]):
            time.sleep(0.02)
        if process.poll() is not None:
            assert process.returncode == 0, run.output()[-6000:]
            assert run.digests() == undisturbed.digests()
            remove_from(run, beginning)
            process = run.start()
            continue
        try:
            chance.choice(processes(process)[victim]).kill()
        except (IndexError, psutil.Error):
            continue  # It ended in the meantime.
        kills += 1
        if victim != "worker":
            failed = process.wait() != 0  # Not if the job had just ended.
            assert not failed or victim == "snakemake" or "FAILED: " in run.output()
            assert not failed or victim != "rank" or "SIGKILL" in run.output()
            process = run.start()
    process.wait()
    finish(run, undisturbed)


def test_a_database_that_is_removed_during_a_run(undisturbed: Workflow, tmp_path: Path) -> None:
    run = undisturbed.copied(tmp_path / "run")
    remove_from(run, "sampling")
    database = min((run.results / "toy/databases").rglob("*.sqlite"))
    process = run.start()
    run.wait_for("sample_draw main train presample 0:", process)
    aside = database.rename(tmp_path / "aside.sqlite")
    assert process.wait() != 0
    assert f"{database.name}" in run.output()
    assert "missing" in run.output()
    aside.rename(database)
    finish(run, undisturbed)


def test_a_full_disk(undisturbed: Workflow, tmp_path: Path) -> None:
    run = replace(undisturbed, folder=tmp_path / "run")
    disk, size = run.folder / "results", FIRST_MIB
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small tmpfs could not be mounted: it needs root and the right to mount")
    try:
        while run.start().wait() != 0:
            assert re.search(r"No space left on device|disk is full", run.output()), run.output()[-3000:]
            size += MORE_MIB
            subprocess.run(["mount", "-o", f"remount,size={size}m", str(disk)], check=True)
        assert size > FIRST_MIB + MORE_MIB
        run.run()
        assert run.digests() == undisturbed.digests()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
