"""A logger plugin of Snakemake, `logger: dphrl` in the profiles: a line for each finished job, failures in short.

A dry run names the keys that changed.
"""

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from logging import LogRecord
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from snakemake.persistence import ParamsChange
from snakemake_interface_logger_plugins.base import LogHandlerBase

from dphrl.config.errors import ConfigError
from dphrl.config.yaml_files import read_yaml
from dphrl.machine.cause import cause_in
from dphrl.machine.progress import counted, duration
from dphrl.text import visible

TARGETS: Final = ("all", "presample", "partition", "reference", "train", "evaluate")
# The rules that take most of the time of a run: without them an estimate of the rest would be far too low. They have a
# prefix in a workflow that imports this one.
LONG_RULES: Final = ("train_base", "sample", "sample_draw", "score", "score_draw", "tensorise", "train_segment")
GOES_ON: Final = "The same command goes on where this one stopped."
# Messages of Snakemake about itself.
_NOISE: Final = (
    "Assuming unrestricted", "Complete log(s)", "DAG of jobs will", "Exiting because",
    "Removing output files of failed job", "Select jobs", "Shutting down", "Using shell",
)  # fmt: skip


class LogHandler(LogHandlerBase):
    """Makes the lines of a terminal from the events of a run.

    In a dry run each job is a line, or all that Snakemake says about it. `--verbose` shows the lines of Snakemake.
    """

    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        # Without abbreviations: Snakemake's --config begins like this option.
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--configfile", "--configfiles", nargs="+", action="extend", default=[], type=Path)
        # Before Snakemake changes the folder.
        self._configuration = [path.absolute() for path in parser.parse_known_args()[0].configfile]
        self._began, self._failed, self._interrupted = 0.0, 0, False
        # Jobs that are not finished by rule, the start events of those at work by number, lines of those that ended
        # since the last line of progress, and seconds of all that ended by rule.
        self._open = Counter[str]()
        self._jobs: dict[int, Mapping[str, Any]] = {}
        self._ended: list[str] = []
        self._seconds: dict[str, list[float]] = defaultdict(list)

    def emit(self, record: LogRecord) -> None:
        try:
            if lines := self._lines(record, vars(record)):
                print(lines, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)
        except Exception:
            self.handleError(record)

    def _lines(self, record: LogRecord, fields: dict[str, Any]) -> str | None:
        settings, event = self.common_settings, fields.get("event")
        if settings.dryrun and event == "job_info" and not settings.verbose:
            if "reason" in map(str, settings.quiet or ()):
                return f"- {_name(fields)}"
            fields["rule_msg"] = None  # Snakemake would show it in place of the files and the costs.
        text = self.format(record)
        if settings.verbose or (settings.dryrun and event != "error"):
            return text
        match event:
            case "run_info":
                self._began, self._open = fields["created"], Counter(fields["stats"])
                del self._open["total"]
            case "job_info":
                self._jobs[fields["jobid"]] = fields
            case "job_finished":
                self._finish(fields)
            case "progress":
                place = f"[{fields['done']} of {fields['total']}{self._left(fields['created'])}]"
                ended, self._ended = self._ended, []
                return "\n".join(f"{place} {job}" for job in ended)
            case "job_error":
                return self._fail(fields)
            case "error":
                return self._error(text, fields)
            case None | "group_info" | "group_error":
                if text.startswith("Terminating processes on user request"):
                    self._interrupted = True
                    return f"Interrupted: ending the jobs at work. {GOES_ON}"
                return None if text.startswith(_NOISE) else text
        return None

    def _finish(self, fields: Mapping[str, Any]) -> None:
        job = self._jobs.pop(fields["job_id"])
        seconds = fields["created"] - job["created"]
        self._open[job["rule_name"]] -= 1
        self._seconds[job["rule_name"]].append(seconds)
        # The last line that `script.py` prints has the time and the result.
        result = _text(job["log"]).rpartition("\n")[2].partition(": done in ")[2] or duration(seconds)
        self._ended.append(visible(f"{_name(job)}: done in {result}", keep=""))

    def _left(self, now: float) -> str:
        """How long the rest takes, by the mean time of each rule's finished jobs.

        Empty at the end, and until each long rule with jobs left has finished one; others count as nothing before.
        """
        unknown = [f"_{rule}" for rule, count in self._open.items() if count > 0 and rule not in self._seconds]
        if any(rule.endswith(f"_{long}") for rule in unknown for long in LONG_RULES):
            return ""
        work = sum(max(self._open[rule], 0) * fmean(spent) for rule, spent in self._seconds.items())
        jobs_at_a_time = sum(map(sum, self._seconds.values())) / max(now - self._began, 1e-9)
        return f", about {duration(work / max(1.0, jobs_at_a_time))} left" if work else ""

    def _fail(self, fields: Mapping[str, Any]) -> str | None:
        cause = cause_in(_text(fields["log"]))
        if self._interrupted or cause[:1] == ["KeyboardInterrupt"]:
            return None
        self._failed += 1
        job = _name(self._jobs.pop(fields["jobid"], fields))
        said = (fields["rule_msg"] or "").splitlines()  # by an executor, such as that of SLURM
        return visible("\n  ".join([f"FAILED: {job}", *said, *cause, f"The log: {', '.join(fields['log'])}"]))

    def _error(self, text: str, fields: Mapping[str, Any]) -> str | None:
        # The job of a command that failed has its own event.
        if self._interrupted or "CalledProcessError" in text:
            return None
        if self._failed and "At least one job did not complete" in text:
            return f"Not finished: {counted(self._failed, 'job')} failed. When the cause is mended: {GOES_ON.lower()}"
        if fields["exception"] == "MissingRuleException":
            return f"{text}\nTargets are {', '.join(TARGETS)}, report, audit, or a file under results/."
        try:
            for file in self._configuration:
                read_yaml(file)
        except (ConfigError, OSError) as error:
            return f"{error}\nAll words after --configfile are read as files: name targets before it."
        return text


def _name(job: Mapping[str, Any]) -> str:
    return str(job["rule_msg"] or job["rule_name"])


def _text(logs: list[str]) -> str:
    return "".join(Path(log).read_text("utf-8", "replace") for log in logs if Path(log).is_file()).rstrip()


def _changed_keys(change: ParamsChange) -> str:
    """Each key that differs from the last execution, as `eta 0.2 -> 0.5`; a param that is no block is named `param`."""
    before, now = _leaves(change.only_old), _leaves(change.only_new)
    changed = [key for key in sorted({*before, *now}) if before[key] != now[key]]
    return ", ".join(f"{key} {' | '.join(before[key])} -> {' | '.join(now[key])}" for key in changed)


def _leaves(params: Iterable[str]) -> defaultdict[str, list[str]]:
    """The values of each key. Snakemake keeps no names of params, so two changed blocks can have one key."""
    leaves = defaultdict[str, list[str]](list)
    for text in sorted(params):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text  # such as inf, which is no literal
        for path, leaf in _walk(value):
            leaves[".".join(path) or "param"].append(str(leaf))
    return leaves


def _walk(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _walk(inner, *path, key)
    else:
        yield path, value


# The reason of a job in a dry run, in place of Snakemake's two sets.
ParamsChange.__str__ = _changed_keys
