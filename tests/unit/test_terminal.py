"""The terminal of a run: one line per finished job, the time left, failures in short, errors of Snakemake."""

import logging
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import DefaultFormatter
from snakemake.persistence import ParamsChange
from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_dphrl import LONG_RULES, TARGETS, LogHandler

RULES = Path(__file__).parents[2] / "rules"
LISTED: dict[str, Any] = {
    "rule_name": "sample",
    "rule_msg": "sampling base",
    "input": ["prompts"],
    "output": ["rollouts"],
    "log": [],
    "wildcards": {"shard": "0"},
    "reason": "Missing output files: rollouts",
    "resources": {"gpu": 1, "mem_mb": 4000},
    "jobid": 3,
    "local": False,
    "is_checkpoint": False,
    "benchmark": None,
    "priority": 0,
    "threads": 1,
}


class Run:
    """The plugin, and events at the times of a test."""

    def __init__(self, capsys: pytest.CaptureFixture[str], stats: Mapping[str, int] = {}, **settings: Any) -> None:
        self.now, self.capsys = 0.0, capsys
        self.handler = LogHandler(OutputSettings(**settings), None)
        self.handler.setFormatter(DefaultFormatter(settings.get("quiet")))
        if stats:
            self.show(LogEvent.RUN_INFO, stats={**stats, "total": sum(stats.values())})

    def show(self, event: LogEvent | None, text: str = "", **fields: Any) -> str:
        """What is printed for an event."""
        record = logging.makeLogRecord({"event": event, "msg": text, "created": self.now, **fields})
        self.handler.emit(record)
        printed = self.capsys.readouterr()
        return (printed.out + printed.err).rstrip("\n")

    def start(self, number: int, rule: str, log: Path | None = None) -> str:
        logs, message = [str(log)] if log else [], f"{rule} {number}"
        return self.show(
            LogEvent.JOB_INFO, **LISTED | {"jobid": number, "rule_name": rule, "rule_msg": message, "log": logs}
        )

    def end(self, number: int, done: int, total: int) -> str:
        assert self.show(LogEvent.JOB_FINISHED, job_id=number) == ""
        return self.show(LogEvent.PROGRESS, done=done, total=total)

    def fail(self, number: int, *logs: Path) -> str:
        facts = {"jobid": number, "rule_name": "train", "rule_msg": None, "log": [*map(str, logs)]}
        return self.show(LogEvent.JOB_ERROR, **LISTED | facts, aux={}, conda_env=None, shellcmd=None)


def test_each_finished_job_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "1.log"
    log.write_text("much\nscore base 0: done in 36 s: 3 of 4 correct\n")
    run = Run(capsys, {"score": 3, "all": 1})
    assert [run.start(1, "score", log), run.start(2, "score")] == ["", ""]
    run.now = 37.2
    assert run.end(1, 1, 4) == "[1 of 4, about 1 min left] score 1: done in 36 s: 3 of 4 correct"
    run.now = 40.0
    assert run.end(2, 2, 4) == "[2 of 4, about 20 s left] score 2: done in 40 s"


@pytest.mark.parametrize("prefix", ["", "other_"])
def test_what_is_left_is_unknown_until_each_long_rule_has_ended_once(
    prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    score, train = f"{prefix}score", f"{prefix}train_segment"
    run = Run(capsys, {score: 3, train: 2, f"{prefix}report": 1, f"{prefix}presample": 1})
    run.start(1, score)
    run.now = 10.0
    assert run.end(1, 1, 7) == f"[1 of 7] {score} 1: done in 10 s"
    run.start(2, train)
    run.now = 50.0
    assert run.end(2, 2, 7) == f"[2 of 7, about 1 min left] {train} 2: done in 40 s"


def test_every_rule_with_a_script_has_a_message() -> None:
    text = "".join(file.read_text("utf-8") for file in RULES.glob("*.smk"))
    heads = r"^ *(?:rule|checkpoint) (\w+):$|^ *use rule \w+ as (\w+) with:$"
    names = [name for names in re.findall(heads, text, re.MULTILINE) for name in names if name]
    assert set(LONG_RULES) <= set(names)
    assert set(TARGETS) - {"all"} <= set(names)
    assert len(re.findall(r"^ +message:$", text, re.MULTILINE)) == len(set(names) - set(TARGETS))


def test_a_job_of_a_dry_run_is_a_line_or_with_reasons_its_files_and_costs(capsys: pytest.CaptureFixture[str]) -> None:
    brief = Run(capsys, dryrun=True, quiet=["reason", "host"])
    assert brief.show(LogEvent.JOB_INFO, **LISTED) == "- sampling base"
    shown = Run(capsys, dryrun=True, quiet=["host"]).show(LogEvent.JOB_INFO, **LISTED)
    for part in ("rule sample:", "input: prompts", "output: rollouts", "reason: Missing", "gpu=1, mem_mb=4000"):
        assert part in shown


def test_a_changed_key_is_shown_with_its_values_before_and_now() -> None:
    method, plan = {"eta": 0.2, "form": "js", "lora": None}, {"n": 8, "top": {"p": 1.0}}
    before = {repr(value) for value in (method, plan, 1)}
    now = {repr(value) for value in (plan | {"top": {"p": 0.9}}, 2, method | {"eta": 0.5})}
    assert str(ParamsChange(before, now)) == "eta 0.2 -> 0.5, param 1 -> 2, top.p 1.0 -> 0.9"
    assert str(ParamsChange(set(), {"inf"})) == "param  -> inf"


def test_messages_about_snakemake_itself_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert Run(capsys).show(None, "Select jobs to execute...") == ""
    assert Run(capsys).show(None, "Building DAG of jobs...") == "Building DAG of jobs..."


def test_a_failed_job_shows_its_cause_and_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("warning\nTraceback\n  File x\nFAILED: NoRehearsalError: D_pef is empty\nLower the limit\n")
    run = Run(capsys, {"train": 1})
    run.start(7, "train", log)
    assert run.fail(7, log).splitlines() == [
        "FAILED: train 7", "  NoRehearsalError: D_pef is empty", "  Lower the limit", f"  The log: {log}",
    ]  # fmt: skip
    assert run.show(LogEvent.ERROR, "RuleException:\nCalledProcessError in file x", exception="RuleException") == ""
    last = run.show(LogEvent.ERROR, "At least one job did not complete successfully.", exception="WorkflowError")
    assert last.startswith("Not finished: 1 job failed.")


def test_ctrl_c_is_one_line_without_the_causes_of_the_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("Traceback\n  File x\nFAILED: KeyboardInterrupt\n")
    run = Run(capsys, {"train": 1})
    assert run.fail(7, log) == ""
    shown = run.show(None, "Terminating processes on user request, this might take some time.")
    assert shown == "Interrupted: ending the jobs at work. The same command goes on where this one stopped."
    assert run.fail(8) == ""
    assert run.show(LogEvent.ERROR, "At least one job did not complete.", exception="WorkflowError") == ""


@pytest.mark.parametrize(("text", "named"), [(None, "presample"), ("run: a\n\tb: 1\n", "line 2")])
def test_a_configuration_that_cannot_be_read_is_named(
    text: str | None, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.yaml").write_text("run: a\n")
    file = tmp_path / ("my.yaml" if text else "presample")
    if text:
        file.write_text(text)
    command = ["snakemake", "--cores", "2", "--configfile", str(tmp_path / "good.yaml"), str(file)]
    monkeypatch.setattr(sys, "argv", [*command, "--config", "run=mine", "--dry-run"])
    shown = Run(capsys, dryrun=True).show(LogEvent.ERROR, "Traceback ...", exception="FileNotFoundError")
    assert str(file) in shown
    assert named in shown
    assert "name targets before it" in shown


def test_a_misspelt_target_is_answered_with_the_targets(capsys: pytest.CaptureFixture[str]) -> None:
    error = "MissingRuleException:\nNo rule to produce presampel"
    shown = Run(capsys).show(LogEvent.ERROR, error, exception="MissingRuleException")
    assert shown.startswith(error)
    assert "Targets are all, presample," in shown
