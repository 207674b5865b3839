"""What a run shows in the terminal: the first job of each stage, each finished job with its time, failures in short."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dphrl.config.errors import ConfigError, nearest
from dphrl.config.files import read_yaml
from dphrl.machine.progress import counted, duration
from dphrl.pages.visible import visible

TARGETS: Final = ("all", "presample", "partition", "reference", "train", "evaluate")
# The rules that take most of the time of a run: without them an estimate of the rest would be far too low.
LONG_RULES: Final = ("train_base", "sample", "sample_draw", "score", "score_draw", "tensorise", "train_segment")
GOES_ON: Final = "The same command goes on where this one stopped."
# A job in words, by its rule; the fields are wildcards.
WORDS: Final = {
    "hash_databases": "hashing the databases of {dataset}",
    "build_world": "making the demo's databases and questions",
    "train_base": "training the base model",
    "fetch": "fetching {hub} from the hub",
    "import_model": "taking the model {model}",
    "prepare_prompts": "preparing the prompts of {dataset}",
    "audit_gold": "auditing the gold answers of {dataset}",
    "find_overlap": "looking for evaluation prompts in the training set",
    "count_rows": "counting the rows of the datasets",
    "sample": "sampling {policy} on {dataset} (evaluate)",
    "sample_draw": "sampling base on {dataset} ({plan})",
    "score": "scoring {policy} on {dataset} (evaluate)",
    "score_draw": "scoring base on {dataset} ({plan})",
    "find_candidates": "dividing the training prompts",
    "refine": "writing the final partition",
    "tensorise": "computing reference log-probs",
    "train_segment": "training {method}, seed {seed}, up to step {step}",
    "collect_training": "collecting training metrics",
    "evaluate_policy": "evaluating {policy} on {dataset}",
    "make_tables": "estimating pass@k, styles, keep and exploration",
    "lay_out": "laying out the paper's tables",
    "draw": "drawing the figure {figure}",
    "write_cards": "writing model cards",
    "report": "writing the report",
    "audit": "auditing the artifacts",
}
# Of more files, a dry run names the first ones.
_LISTED: Final = 5
# The same in other units, and the folder of temporary files.
_REPEATED: Final = ("mem", "mem_mib", "disk", "disk_mib", "tmpdir", "_cores", "_nodes")
# Lines of Snakemake that say nothing about the run.
_NOISE: Final = (
    "Assuming unrestricted", "Complete log(s)", "DAG of jobs will", "Exiting because", "Provided ", "Rules claiming",
    "Removing output files of failed job", "Select jobs", "Shutting down", "Using shell",
)  # fmt: skip
_SILENT: Final = {"shellcmd", "job_started", "resources_info", "workflow_started", "rulegraph", "debug_dag"}
# The last line of a traceback, with the module of the exception and the prefix of a rank.
_EXCEPTION: Final = re.compile(r"(?:\[rank\d+\]: )?(?:\w+\.)*(\w*(?:Error|Exception|Interrupt|Exit)\b.*)")
_FRAME: Final = re.compile(r'(?:\[rank\d+\]: )?  File "([^"]+)", line (\d+), in .*')
# Parts of the paths of code that is not the user's: the workflow's, of libraries, and made while a program runs.
_NOT_THE_USERS: Final = ("workflow_scripts", "/lib/python", "/.snakemake/", "site-packages", "<")
_LAST_LINES: Final = 12
_SHORTEST_ESTIMATE: Final = 5.0


@dataclass
class Job:
    """A job at work: its rule, its message, its log, and when it started."""

    rule: str
    message: str | None
    log: Sequence[str]
    started: float


class Terminal:
    """Makes the lines of a terminal from the events of a run of Snakemake.

    Args:
        command: of this Snakemake, as in `sys.argv`.
        clock: seconds.
    """

    def __init__(self, command: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._command, self._clock, self._began = command, clock, clock()
        self._jobs: dict[int, Job] = {}
        self._ended: list[tuple[Job, float]] = []
        self._planned: Counter[str] = Counter()
        # Snakemake counts a target as a job, the last one.
        self._targets = 0
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._failed, self._interrupted = 0, False

    def show(self, event: str, text: str, fields: Mapping[str, Any]) -> str | None:
        """The lines for an event, None for none.

        Args:
            event: name of Snakemake's LogEvent, "None" for a plain message.
            text: as Snakemake would print it.
            fields: of the event.
        """
        if event in _SILENT or (event == "None" and text.startswith(_NOISE)):
            return None
        if text.startswith("Terminating processes on user request"):
            self._interrupted = True
            return f"Interrupted: ending the jobs at work. {GOES_ON}"
        shown = {
            "run_info": self._plan,
            "job_info": self._start,
            "job_finished": self._finish,
            "progress": self._progress,
            "job_error": self._job_error,
            "error": self._error,
        }.get(event)
        return shown(text, fields) if shown else text

    def _plan(self, _: str, fields: Mapping[str, Any]) -> str:
        stats = Counter(fields["stats"])
        total = stats.pop("total", 0)
        self._planned = Counter({rule: count for rule, count in stats.items() if not rule.endswith(TARGETS)})
        self._targets = total - self._planned.total()
        parts = ", ".join(f"{name} {count}" for name, count in self._planned.most_common())
        return f"{counted(self._planned.total(), 'job')}: {parts}"

    def _start(self, _: str, fields: Mapping[str, Any]) -> str | None:
        job = Job(fields["rule_name"], in_words(fields["rule_name"], fields["wildcards"]), fields["log"], self._clock())
        announced = job.rule in self._seconds or any(other.rule == job.rule for other in self._jobs.values())
        self._jobs[fields["jobid"]] = job
        return None if announced or job.message is None else f"started: {job.message}"

    def _finish(self, _: str, fields: Mapping[str, Any]) -> None:
        job = self._jobs.pop(fields["job_id"], None)
        if job is not None:
            seconds = self._clock() - job.started
            self._seconds[job.rule].append(seconds)
            self._ended.append((job, seconds))

    def _progress(self, _: str, fields: Mapping[str, Any]) -> str | None:
        ended, self._ended = self._ended, []
        place, left = f"{fields['done']} of {fields['total'] - self._targets}", self._left()
        place += f", {left} left" if left else ""
        lines = [f"[{place}] {job.message}: {_note(job, seconds)}" for job, seconds in ended if job.message]
        return "\n".join(lines) or None

    def _left(self) -> str | None:
        """How long the rest takes, by the mean time of each rule's finished jobs.

        None if it is short, and until each long rule with jobs left has finished one; others count as nothing before.
        """
        rest = {rule: count - len(self._seconds.get(rule, ())) for rule, count in self._planned.items()}
        open_rules = {rule: count for rule, count in rest.items() if count > 0}
        seconds = [spent for of_rule in self._seconds.values() for spent in of_rule]
        elapsed = self._clock() - self._began
        measured = [rule for rule in open_rules if self._seconds.get(rule)]
        if any(rule.endswith(LONG_RULES) for rule in open_rules.keys() - measured):
            return None
        work = sum(open_rules[rule] * sum(self._seconds[rule]) / len(self._seconds[rule]) for rule in measured)
        left = work / max(1.0, sum(seconds) / elapsed) if elapsed else 0.0
        return None if left < _SHORTEST_ESTIMATE else f"about {duration(left)}"

    def _job_error(self, _: str, fields: Mapping[str, Any]) -> str | None:
        job = self._jobs.pop(fields["jobid"], None)
        name = job.message if job is not None and job.message else fields["rule_name"]
        logs = [Path(path) for path in fields["log"]]
        lines = [line for path in logs if path.is_file() for line in path.read_text("utf-8", "replace").splitlines()]
        reason = last_exception(lines)
        if self._interrupted or reason[:1] == ["KeyboardInterrupt"]:
            return None
        self._failed += 1
        message = [f"FAILED: {name}", *(f"  {line}" for line in [*_said(fields["rule_msg"]), *reason])]
        names = ", ".join(map(str, logs))
        if reason and lines[-1].endswith(reason[-1]):
            place = place_of_exception(lines)
            message += [*([f"  {place}"] if place else []), f"The traceback: {names}"]
        elif lines:
            message += [f"The end of {names}:", *(f"  | {line}" for line in lines[-_LAST_LINES:])]
        elif logs:
            message.append(f"Its log is empty: {names}")
        return visible("\n".join(message))

    def _error(self, text: str, fields: Mapping[str, Any]) -> str | None:
        # The job of a command that failed has its own event.
        if self._interrupted or "CalledProcessError" in text:
            return None
        if "At least one job did not complete" in text:
            return f"Not finished: {counted(self._failed, 'job')} failed. When the cause is mended: {GOES_ON.lower()}"
        return explained(text, self._command)


def in_words(rule: str, wildcards: Mapping[str, object]) -> str | None:
    """A job in words; None for a target, and for a rule of another workflow that imports this one."""
    # The rules of a module have a prefix.
    own = max((name for name in WORDS if rule == name or rule.endswith(f"_{name}")), key=len, default=None)
    draw = wildcards.get("draw", "main")
    return WORDS[own].format(**wildcards) + (f", draw {draw}" if draw != "main" else "") if own else None


def planned(fields: Mapping[str, Any], reasons: bool) -> str | None:
    """A job of a dry run: a line in words, or with `reasons` the lines of Snakemake without what they repeat.

    Timings, logs and other units are left out, and in the reason the files of the lines above it.
    """
    rule, wildcards = fields["rule_name"], fields["wildcards"]
    if not reasons:
        return in_words(rule, wildcards)
    resources = {name: value for name, value in fields["resources"].items() if name not in _REPEATED}
    reason = re.sub(r"(Missing output files|Input files updated by another job): [^;]*", r"\1", fields["reason"])
    facts = {
        "input": _listed(fields["input"]),
        "output": _listed([file for file in fields["output"] if "/timings/" not in file]),
        "reason": reason.replace("Missing output files; Input files updated by another job", "Missing output files"),
        "wildcards": ", ".join(f"{name}={value}" for name, value in wildcards.items()),
        "resources": ", ".join(f"{name}={value}" for name, value in resources.items()),
    }
    lines = [f"{'checkpoint' if fields['is_checkpoint'] else 'rule'} {rule}:"]
    return "\n".join([*lines, *(f"    {name}: {fact}" for name, fact in facts.items() if fact)])


def _listed(files: Sequence[str]) -> str:
    more = f", ... ({len(files)} files)" if len(files) > _LISTED else ""
    return ", ".join(files[:_LISTED]) + more


def explained(text: str, command: Sequence[str]) -> str:
    """An error of Snakemake about its command in words that name the file or the target; other errors as they are."""
    missing = re.search(r"FileNotFoundError: .*: '(.+)'\s*$", text)
    if missing and "configfile" in text:
        advice = "There is no such configuration file."
        if missing[1] in TARGETS or not missing[1].endswith((".yaml", ".yml", ".json")):
            advice += (
                " All words after --configfile are read as files: name targets before it, "
                f"snakemake --cores 2 {missing[1]} --configfile FILE"
            )
        return f"{missing[1]}: {advice}"
    if "Config file" in text and "JSON or YAML" in text:
        for path in config_files(command):
            try:
                if not isinstance(read_yaml(path), dict):
                    return f"{path}: expected a block of keys (run: ..., datasets: ...), found something else"
            except ConfigError as error:
                return str(error)
    locked = re.search(r"Directory cannot be locked.*:\n(.+)", text)
    if locked:
        return (
            f"Another Snakemake is at work in {locked[1]}: wait for it, or stop it with Ctrl-C. If none is, a killed "
            "one left its lock: start with workflow_scripts/launch.py, which removes it, or once with --unlock"
        )
    unknown = re.search(r"No rule to produce (\S+)", text)
    if unknown:
        targets = (*TARGETS, "report", "audit")
        near = nearest(unknown[1], targets)
        allowed = f"Targets are {', '.join(targets)}, or a file under results/."
        return f"{unknown[1]}: no such target. {allowed}" + (f"\n  nearest: {near}" if near else "")
    return text


def config_files(command: Sequence[str]) -> list[Path]:
    """The files after --configfile in a command."""
    files: list[Path] = []
    reading = False
    for word in command:
        if word.startswith("-"):
            option, _, value = word.partition("=")
            reading = option in ("--configfile", "--configfiles")
            files += [Path(value)] if reading and value else []
        elif reading:
            files.append(Path(word))
    return files


def last_exception(lines: Sequence[str]) -> list[str]:
    """The last exception of a log, without its traceback: its line and what follows; empty if there is none.

    Where it says only that a rank ended, what the rank raised comes first.
    """
    # The last traceback can end in an exception without Error in its name; earlier ones are then not the cause.
    begun = max((at for at, line in enumerate(lines) if "Traceback (most recent call last)" in line), default=-1)
    for index in range(len(lines) - 1, begun, -1):
        exception = _EXCEPTION.fullmatch(lines[index])
        if exception:
            rest = [line.removeprefix("[rank0]: ") for line in lines[index + 1 : index + _LAST_LINES]]
            end = next((place for place, line in enumerate(rest) if line.startswith(("Traceback", "["))), len(rest))
            of_ranks = lines[:begun] if begun >= 0 else lines[:index]
            before = last_exception(of_ranks) if exception[1].startswith("RankError") else []
            return [*before, exception[1], *rest[:end]]
    return []


def place_of_exception(lines: Sequence[str]) -> str | None:
    """Where in the user's own code, such as a scorer, a log's last traceback was; None if it was in no such code."""
    for line in reversed(lines):
        if "Traceback (most recent call last)" in line:
            return None
        frame = _FRAME.fullmatch(line)
        if frame and not any(part in frame[1] for part in _NOT_THE_USERS):
            return f"in {frame[1]}, line {frame[2]}"
    return None


def _said(message: str | None) -> list[str]:
    return message.splitlines() if message else []


def _note(job: Job, seconds: float) -> str:
    """The time of a job, and its result as the last line of its log says it."""
    logs = [Path(path) for path in job.log if Path(path).is_file()]
    last = logs[-1].read_text("utf-8", "replace").rstrip().rpartition("\n")[2] if logs else ""
    said = re.fullmatch(r".*: done in [\d.]+ s(?:: (.*))?", last)
    return visible(f"done in {duration(seconds)}" + (f": {said[1]}" if said and said[1] else ""), keep="")
