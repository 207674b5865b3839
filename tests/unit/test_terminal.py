"""The terminal: one line per finished job, the rest, failures in short, errors of Snakemake in words."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dphrl.machine.progress import duration
from snakemake_logger_plugin_dphrl.terminal import (
    LONG_RULES,
    TARGETS,
    WORDS,
    Terminal,
    config_files,
    explained,
    last_exception,
    place_of_exception,
    planned,
)

COMMAND = ["snakemake", "--cores", "2", "--configfile", "my.yaml"]
TRACEBACK = """\
INFO loading
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    f()
dphrl.tasks.partition.NoRehearsalError: D_pef is empty
Lower partition.pef_min_correct""".splitlines()

WILDCARDS = {"policy": "base", "dataset": "maths", "method": "grpo", "step": "2"}


class Run:
    """A terminal with a clock that the test sets."""

    def __init__(self, stats: Mapping[str, int]) -> None:
        self.now = 0.0
        self.terminal = Terminal(COMMAND, lambda: self.now)
        self.show("run_info", stats={**stats, "total": sum(stats.values())})

    def show(self, event: str, text: str = "", **fields: Any) -> str | None:
        return self.terminal.show(event, text, fields)

    def start(self, number: int, rule: str, log: Path | None = None) -> str | None:
        logs = [str(log)] if log else []
        return self.show("job_info", jobid=number, rule_name=rule, wildcards=WILDCARDS | {"seed": number}, log=logs)

    def end(self, number: int, done: int, total: int) -> str | None:
        assert self.show("job_finished", job_id=number) is None
        return self.show("progress", done=done, total=total)


def test_the_first_job_of_a_stage_is_announced_and_each_finished_one_has_a_line_with_its_result(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text("much\nscore base maths 0: done in 37.2 s: 3 of 4 correct\n")
    run = Run({"score": 3, "all": 1})
    assert run.start(1, "score", log) == "started: scoring base on maths (evaluate)"
    assert run.start(2, "score") is None
    run.now = 37.2
    assert (
        run.end(1, 1, 4) == "[1 of 3, about 1 min left] scoring base on maths (evaluate): done in 37 s: 3 of 4 correct"
    )
    run.now = 40.0
    assert run.end(2, 2, 4) == "[2 of 3, about 20 s left] scoring base on maths (evaluate): done in 40 s"


@pytest.mark.parametrize("prefix", ["", "other_"])
def test_what_is_left_is_unknown_until_each_long_rule_has_ended_once(prefix: str) -> None:
    score, train = f"{prefix}score", f"{prefix}train_segment"
    run = Run({score: 3, train: 2, f"{prefix}report": 1, f"{prefix}presample": 1})
    run.start(1, score)
    run.now = 10.0
    assert run.end(1, 1, 7) == "[1 of 6] scoring base on maths (evaluate): done in 10 s"
    run.start(2, train)
    run.now = 50.0
    assert run.end(2, 2, 7) == "[2 of 6, about 1 min left] training grpo, seed 2, up to step 2: done in 40 s"


def test_every_rule_with_a_script_has_words_and_no_other() -> None:
    text = "".join(file.read_text("utf-8") for file in (Path(__file__).parents[2] / "rules").glob("*.smk"))
    heads = re.findall(r"^ *(?:rule (\w+)|checkpoint (\w+)|use rule \w+ as (\w+) with):$", text, re.MULTILINE)
    rules = {name for head in heads for name in head if name}
    assert set(LONG_RULES) <= rules
    assert set(WORDS) == rules - set(TARGETS)


JOB = {
    "rule_name": "dphrl_sample_draw",
    "wildcards": {"draw": "main", "dataset": "train", "plan": "presample", "shard": "0"},
    "input": [f"r/{number}.parquet" for number in range(7)],
    "output": ["results/r/a.parquet", "results/r/timings/a.parquet"],
    "reason": "Missing output files: results/r/a.parquet; Input files updated by another job: results/r/1.parquet",
    "resources": {"tmpdir": "/tmp", "gpu": 1, "mem_mb": 4000, "mem": "4 GB", "runtime": 60},
    "is_checkpoint": False,
}


def test_a_job_of_a_dry_run_is_a_line_or_with_reasons_its_files_and_costs() -> None:
    assert planned(JOB, reasons=False) == "sampling base on train (presample)"
    assert (
        planned(JOB, reasons=True)
        == """\
rule dphrl_sample_draw:
    input: r/0.parquet, r/1.parquet, r/2.parquet, r/3.parquet, r/4.parquet, ... (7 files)
    output: results/r/a.parquet
    reason: Missing output files
    wildcards: draw=main, dataset=train, plan=presample, shard=0
    resources: gpu=1, mem_mb=4000, runtime=60"""
    )
    changed = JOB | {"reason": "Params have changed since last execution: before: 1 now: 2"}
    assert "    reason: Params have changed since last execution: before: 1 now: 2\n" in str(planned(changed, True))


@pytest.mark.parametrize(
    "text",
    [
        "Select jobs to execute...",
        "Assuming unrestricted shared filesystem usage.",
        "Removing output files of failed job find_candidates since they might be corrupted:\na.parquet",
    ],
)
def test_lines_about_snakemake_itself_are_left_out(text: str) -> None:
    assert Run({}).show("None", text) is None
    assert Run({}).show("None", "Building DAG of jobs...") == "Building DAG of jobs..."


def test_a_failed_job_shows_its_last_exception_once_then_the_path_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(["first", *["warning"] * 50, *TRACEBACK]))
    run = Run({"train_segment": 1})
    run.start(7, "train_segment", log)
    shown = run.show("job_error", jobid=7, rule_name="train", rule_msg=None, log=[str(log)])
    assert shown is not None
    assert shown.splitlines() == [
        "FAILED: training grpo, seed 7, up to step 2",
        "  NoRehearsalError: D_pef is empty", "  Lower partition.pef_min_correct",
        "  in a.py, line 1", f"The traceback: {log}",
    ]  # fmt: skip
    assert run.show("error", "RuleException:\nCalledProcessError in file x") is None
    said = run.show("error", "WorkflowError:\nAt least one job did not complete successfully.")
    assert said is not None
    assert said.startswith("Not finished: 1 job failed.")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["step 1", "step 2"], ["The end of {}:", "  | step 1", "  | step 2"]),
        ([], ["Its log is empty: {}"]),
    ],
)
def test_a_failed_job_without_an_exception_shows_the_end_of_its_log(
    tmp_path: Path, lines: list[str], said: list[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines))
    shown = Run({"train": 1}).show("job_error", jobid=7, rule_name="train", rule_msg=None, log=[str(log)])
    assert shown == "\n".join(["FAILED: train", *said]).format(log)


def test_what_follows_an_exception_for_long_is_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(["ValueError: tried again", *["step"] * 50, "the last"]))
    shown = Run({"train": 1}).show("job_error", jobid=7, rule_name="train", rule_msg=None, log=[str(log)])
    assert shown is not None
    assert shown.endswith("  | step\n  | the last")


def test_ctrl_c_is_one_line_without_the_tracebacks_of_the_jobs(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n")
    run = Run({"train_segment": 1})
    run.start(7, "train_segment", log)
    assert run.show("job_error", jobid=7, rule_name="train", rule_msg=None, log=[str(log)]) is None
    shown = run.show("None", "Terminating processes on user request, this might take some time.")
    assert shown == "Interrupted: ending the jobs at work. The same command goes on where this one stopped."
    assert run.show("error", "WorkflowError:\nAt least one job did not complete successfully.") is None


def test_the_exception_of_a_rank_is_found_without_its_prefix() -> None:
    lines = ["[rank0]: Traceback (most recent call last):", "[rank0]: ValueError: no rehearsal", "[W1 06:00] destroy"]
    assert last_exception(lines) == ["ValueError: no rehearsal"]
    assert last_exception(["all is well"]) == []


def test_an_exception_of_another_name_leaves_the_end_of_the_log() -> None:
    caused = ["Traceback (most recent call last):", "  File x", "ValueError: invalid", "", "During handling of it"]
    assert last_exception([*caused, "Traceback (most recent call last):", "  File y", "Timeout: service gone"]) == []


def test_where_a_rank_ended_its_exception_comes_first() -> None:
    ended = ["Traceback (most recent call last):", "  File x", "dphrl.ranks.launch.RankError: rank 1 ended"]
    assert last_exception([*TRACEBACK, *ended]) == [
        "NoRehearsalError: D_pef is empty", "Lower partition.pef_min_correct", "RankError: rank 1 ended",
    ]  # fmt: skip


MISSING = "  File load_configfile\nFileNotFoundError: [Errno 2] No such file or directory: '{}'\n"


def test_a_missing_configuration_is_named() -> None:
    assert explained(MISSING.format("my.yaml"), COMMAND) == "my.yaml: There is no such configuration file."


def test_a_target_behind_configfile_is_explained_with_the_right_command() -> None:
    shown = explained(MISSING.format("presample"), COMMAND)
    assert "name targets before it, snakemake --cores 2 presample --configfile FILE" in shown


def test_a_locked_folder_is_named_with_what_to_do() -> None:
    error = "LockException:\nError: Directory cannot be locked. Please make sure ... directory:\n/data/my\nIf"
    shown = explained(error, COMMAND)
    assert shown.startswith("Another Snakemake is at work in /data/my: wait for it, or stop it with Ctrl-C.")
    assert "\n" not in shown


def test_a_misspelt_target_is_answered_with_the_targets() -> None:
    shown = explained("MissingRuleException:\nNo rule to produce presampel (if you use input functions ...", COMMAND)
    assert shown.startswith("presampel: no such target. Targets are all, presample,")
    assert shown.endswith("nearest: presample")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: a\n\tb: 1\n", "line 2, column 1"),
        ("run: [1\n", "my.yaml"),
        ("- a\n", "expected a block of keys"),
        ("", "expected a block of keys"),
    ],
)
def test_wrong_yaml_is_named_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    shown = explained("WorkflowError:\nConfig file is not valid JSON or YAML. In case ...", [*COMMAND[:-1], str(file)])
    assert str(file) in shown
    assert message in shown


def test_the_files_of_a_command_are_found() -> None:
    command = ["snakemake", "--configfile", "a", "b", "--cores", "2", "--configfile=c", "d", "-n", "x"]
    assert [path.name for path in config_files(command)] == ["a", "b", "c", "d"]


def test_durations_are_short() -> None:
    shown = {0.44: "0.4 s", 37.2: "37 s", 720: "12 min", 11_400: "3 h 10 min", 91_000: "25 h", 4_440_000: "1,230 h"}
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_an_exception_of_the_users_code_has_its_file_and_line() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/p/workflow_scripts/score.py", line 20, in <module>',
        '  File "data/pantry.py", line 18, in score',
        '  File "/v/lib/python3.11/json/decoder.py", line 337, in decode',
        "KeyError: 'rosemary'",
    ]
    assert last_exception(lines) == ["KeyError: 'rosemary'"]
    assert place_of_exception(lines) == "in data/pantry.py, line 18"
    assert place_of_exception([lines[0], lines[1], lines[4]]) is None
