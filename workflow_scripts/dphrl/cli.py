"""The commands of `dphrl`: their options, help and exit statuses.

Options are declared here and nothing heavy is imported for them, so that help is instant. A command imports its package
when it runs. Errors about files and settings, and Ctrl-C, end it with one line; faults of the program have a traceback.
"""

import argparse
import os
import sys
from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dphrl.text import visible

# The extra of this package that brings a library.
_EXTRAS: Final = {
    **dict.fromkeys(("latex2sympy2_extended", "math_verify", "sympy"), "math"),
    "sqlglot": "sql",
    **dict.fromkeys(("accelerate", "gguf", "huggingface_hub", "peft", "psutil", "snakemake"), "workflow"),
    **dict.fromkeys(("torch", "transformers"), "workflow"),
}


@dataclass(frozen=True)
class Command:
    """A command of the program.

    Attributes:
        summary: its line in the list of commands.
        text: its description, examples and exit statuses, separated by an empty line.
        add_options: declares the options.
        run: does the work and returns the exit status. It raises ArgumentError for options that exclude each other.
    """

    summary: str
    text: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 2 after errors of usage, and about a file or a setting."""
    parser = ArgumentParser(
        prog="dphrl", description="Diversity-preserving RL: what a policy can do, and what training took from it."
    )
    group = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    parsers = {}
    for name, command in COMMANDS.items():
        description, _, epilog = command.text.partition("\n\n")
        parsers[name] = group.add_parser(
            name,
            help=command.summary,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_options(parsers[name])
    options = parser.parse_args(arguments)
    name = vars(options).pop("command")
    try:
        status = COMMANDS[name].run(options)
        sys.stdout.flush()
        return status
    except ArgumentError as error:
        parsers[name].error(visible(str(error)))
    except BrokenPipeError:
        # The reader of a pipe (head, less) ended. The interpreter must not write the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"dphrl {name}: interrupted", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        extra = _EXTRAS.get(library)
        needed = f"{library} is not installed: pip install 'dphrl[{extra}]'" if extra else str(error)
        print(visible(f"dphrl {name}: {needed}"), file=sys.stderr)
        return 2
    except BaseException as error:
        # Damaged files raise errors of any type, and the audit is for damaged files.
        for_damage = name in ("audit", "show", "lineage") and isinstance(error, Exception)
        if not (for_damage or _is_about_input(error)):
            raise
        print(visible(f"dphrl {name}: {str(error) or repr(error)}"), file=sys.stderr)
        return 2


def _is_about_input(error: BaseException) -> bool:
    """Whether an error is about files or settings. Polars panics, which are no Exception, at damaged files."""
    from polars.exceptions import PanicException, PolarsError

    from dphrl.config.errors import ConfigError
    from dphrl.scoring.verdict import InfrastructureError

    return isinstance(error, OSError | ValueError | PolarsError | PanicException | ConfigError | InfrastructureError)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=VALUE")
    return name, value


_INIT: Final = """\
Looks at a file of questions, chooses the task, draws 8 answers to 16 questions, and writes a commented
configuration that passes the checks of the workflow. Needs the model's weights, and a GPU unless --cpu; else --no-draw.

examples:
  dphrl init --data questions.jsonl --model models/Qwen3-0.6B
  dphrl init --data train.json --databases databases --test dev.json --model ORG/NAME
  dphrl init --data mine.jsonl --field question=prompt_text --field answer=label --model models/mine --cpu
  dphrl init --data mine.jsonl --task one_of --scorer my_scorer.py --model models/mine

The fields of the questions decide the task: sql (db_id and a gold query), math (an answer or a solution with
\\boxed{}). Any other task needs --task and --scorer (docs/how-to/own-scorer.md). Paths are relative to the folder in
which the workflow will run. An existing file is never replaced.

exit status: 0, 2 if no configuration can be written (the message has the file and what was expected)"""


def _init_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", metavar="FILE", required=True, help="questions: .jsonl, .json, .parquet, or their name on the hub")
    add("--model", metavar="DIR", required=True, help="the base model: a folder, or its name on the hub")
    add("--test", metavar="FILE", help="questions to evaluate on (default: the questions of --data)")
    add("--out", metavar="FILE", type=Path, help="the configuration (default: the name of --data, .yaml)")
    add("--task", help="sql, math, or the name that --scorer registers (default: by the fields)")
    add("--scorer", metavar="FILE", help="a Python file with a custom scorer")
    add("--databases", metavar="DIR", help="<db_id>/<db_id>.sqlite (default: `database` next to --data)")
    help_ = "the file's name of a field, if unusual: question, answer, db_id, gold_sql, ground_truth, ..."
    add("--field", metavar="OURS=THEIRS", action="append", type=_pair, default=[], help=help_)
    add("--gpu-gib", type=float, default=80.0, help="memory of a GPU in GiB (default: 80)")
    add("--cpu", action="store_true", help="a machine without GPUs: small models only")
    help_ = "draw no answers, by which their length and their place are set: a machine without the model or its GPU"
    add("--no-draw", dest="draw", action="store_false", help=help_)


def _init(options: Namespace) -> int:
    if (options.scorer is None) != (options.task in (None, "sql", "math")):
        message = "--task NAME and --scorer FILE belong together, for a task that is neither sql nor math"
        raise ArgumentError(None, message)
    from dphrl.plan.starter import init

    return init(options)


_DIAGNOSE: Final = """\
Did a tuned model lose its diversity? Compares files of samples, as many tools write them, of a base model
and of models tuned from it, on the questions that all files answer.

examples:
  dphrl diagnose base.jsonl tuned.jsonl
  dphrl diagnose base.jsonl step100.jsonl step200.jsonl --html page.html
  dphrl diagnose base.parquet tuned.parquet --map text=response --map correct=passed
  dphrl diagnose base.jsonl tuned.jsonl --task math --gold answers.jsonl
  dphrl diagnose results/demo/verdicts/base/maths.evaluate results/demo/verdicts/grpo-s1/step48/maths.evaluate

Diagnoses: COLLAPSED (coverage fell, by more than lower accuracy explains), WORSE (accuracy explains it), SHARPENED
(drawing hotter recovers it), NARROWED (coverage holds, right answers vary less), NOT COLLAPSED (no loss of the margin
is left open), CANNOT TELL (with the reason). docs/diagnose.md says what each does not mean, and what to do next.

exit status: 0 NOT COLLAPSED, NARROWED or SHARPENED, 2 usage or an unreadable file, 3 COLLAPSED or WORSE (a model, after
correction for several), 4 CANNOT TELL"""


def _diagnose_options(parser: ArgumentParser) -> None:
    kinds = ".jsonl, .json, .parquet, or a folder of .parquet files"
    parser.add_argument("base", metavar="BASE", type=Path, help=f"samples of the base model: {kinds}")
    parser.add_argument("tuned", metavar="TUNED", nargs="*", type=Path, help="samples of a tuned model, or of several")
    help_ = "several trainings of one method, judged as one model; several times"
    add = parser.add_argument
    add("--trainings", metavar="NAME=FILE,FILE,...", action="append", type=_pair, default=[], help=help_)
    help_ = "samples of the tuned model at higher temperatures: does drawing hotter recover a loss?"
    add("--hotter", metavar="FILE", nargs="+", type=Path, default=[], help=help_)
    add = parser.add_argument_group("diagnosis").add_argument
    add("--k", type=int, help="k of pass@k (default: the largest power of two up to half of the samples)")
    add("--margin", type=float, default=5.0, help="loss in points that NOT COLLAPSED excludes (default: 5)")
    help_ = "a style of responses, by how they start; several times, the longest that fits counts"
    add("--styles", metavar="NAME=PREFIX", action="append", type=_pair, default=[], help=help_)
    add = parser.add_argument_group("how the files are read").add_argument
    help_ = (
        "the file's name of a field: question_id, question, text, correct, score, gold, cluster, n, c, truncated, "
        "sample_index; nested: rollouts.*.text"
    )
    add("--map", metavar="OURS=THEIRS", action="append", type=_pair, default=[], help=help_)
    add("--threshold", type=float, help="a sample is right if its score is at least this")
    add = parser.add_argument_group("judging here, in a sandbox").add_argument
    add("--task", choices=("math", "sql"), help="judge the samples; needs the extra [math] or [sql]")
    add("--gold", metavar="FILE", type=Path, help="gold answers by id, if the files have none")
    add("--databases", metavar="DIR", type=Path, help="<db_id>/<db_id>.sqlite, for --task sql")
    add = parser.add_argument_group("output").add_argument
    add("--all", action="store_true", help="variety by each kind of classes too")
    add("--html", metavar="FILE", type=Path, help="one self-contained page")
    add("--json", metavar="FILE", type=Path, help="everything, for machines")


def _diagnose(options: Namespace) -> int:
    if options.k is not None and options.k < 1:
        raise ArgumentError(None, f"--k {options.k}: expected 1 or more")
    if not 0.0 < options.margin < 100.0:
        raise ArgumentError(None, f"--margin {options.margin:g}: expected points between 0 and 100")
    if not options.tuned and not options.trainings:
        raise ArgumentError(None, "the following arguments are required: TUNED (or --trainings NAME=FILE,FILE)")
    if options.hotter and (len(options.tuned) != 1 or options.trainings):
        raise ArgumentError(None, "--hotter is about one tuned model: name one TUNED, and no --trainings")
    if options.gold and not options.task:
        raise ArgumentError(None, "--gold is for judging here: add --task math or --task sql")
    if options.task == "sql" and not options.databases:
        raise ArgumentError(None, "--task sql needs --databases DIR, the folder of <db_id>/<db_id>.sqlite")
    from dphrl.diagnose.run import run

    return run(options)


_AUDIT: Final = """\
Check every artifact of a run.

example:
  dphrl audit results/demo

exit status: 0 if all is well, 1 if a check failed, 2 if there is nothing to check"""
_SHOW: Final = """\
Print one artifact: its footer, columns and first rows.

example:
  dphrl show results/demo/draws/main/partition/final.parquet"""
_LINEAGE: Final = """\
Print the steps that made an artifact: with --depth, back to the data.

example:
  dphrl lineage results/demo/tables/headline.parquet --depth 9"""


def _audit_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", type=Path, help="folder of the run")


def _show_options(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="FILE", type=Path)


def _lineage_options(parser: ArgumentParser) -> None:
    _show_options(parser)
    parser.add_argument(
        "--depth", metavar="N", type=int, default=1, help="steps to go back (default: 1, to its inputs)"
    )


def _audit(options: Namespace) -> int:
    from dphrl.report.audit import audit_run, summary

    run = audit_run(options.path)
    print(summary(run))
    return 1 if run.faults else 0


def _show(options: Namespace) -> int:
    from dphrl.report.show import show

    print(show(options.path))
    return 0


def _lineage(options: Namespace) -> int:
    if options.depth < 0:
        raise ArgumentError(None, f"--depth {options.depth}: expected 0 (the file alone) or more")
    from dphrl.report.lineage import lineage

    print(lineage(options.path, options.depth))
    return 0


_EXPORT: Final = """\
Writes prompts, stored responses and the judge of a run for another trainer, such as TRL or verl.

examples:
  dphrl export results/demo --out demo-export
  dphrl export results/mine --out mine-export --databases data/databases
  dphrl export results/mine --out mine-export --draw s2

The run needs stages 1 to 4: make run CONFIG=mine.yaml TARGET=reference. docs/with-your-trainer.md lists the files, and
says how a trainer uses them.

exit status: 0, 2 if nothing can be written (the message says what to do)"""


def _export_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="folder of the run")
    add("--out", metavar="DIR", type=Path, required=True, help="a new or empty folder")
    add("--draw", default="main", help="draw of stage 1: main (default), or s<seed> of a further training seed")
    add("--databases", metavar="DIR", type=Path, help="for SQL on your databases: their folder, as in the run")
    add("--scorer", metavar="FILE", type=Path, help="for a custom scorer: its file, as in the run")


def _export(options: Namespace) -> int:
    from dphrl.report.export import export

    print(visible(export(**vars(options))))
    return 0


_PLAN: Final = """\
Memory per GPU, operations, hours and disk of a configuration, from it and the model's config.json.
Hours are those of the model's matrix products, and 10 s for each job that uses the model.

examples:
  dphrl plan config/config.yaml                        the demo, on two CPU cores
  dphrl plan my.yaml --gpu-gib 80 --slots 4            on four GPUs of 80 GiB
  dphrl plan my.yaml --tflops 400                      hours at another speed of a GPU

exit status: 0, 1 if something does not fit, 2 if the plan cannot be made"""


def _plan_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    text = "the configuration, for instance config/config.yaml; of several files, each changes those before it"
    add("config", type=Path, nargs="+", help=text)
    add("--gpu-gib", type=float, help="memory of a GPU in GiB (default: hardware.gpu_gib)")
    add("--slots", type=int, help="GPUs, or CPU cores, at one time (default: 2, or those of the largest job)")
    add("--tflops", type=float, help="10^12 operations/s of each (default: 200 of a GPU, 0.03 of a core)")


def _plan(options: Namespace) -> int:
    from dphrl.plan.describe import print_plan

    return print_plan(options.config, options.gpu_gib, options.slots, options.tflops)


_LOOK: Final = """\
Draws 8 answers to 16 training questions with the base model, judges them as the run would, and says which key
mends a fault that it sees. It writes no file.

example:
  dphrl look my.yaml

exit status: 0, 1 if a run would stop at the partition, since answers are not found or none is right, 2 if there is
nothing to look at"""


def _look_options(parser: ArgumentParser) -> None:
    text = "the configuration; of several files, each changes those before it"
    parser.add_argument("config", type=Path, nargs="+", help=text)


def _look(options: Namespace) -> int:
    from dphrl.plan.look import print_look

    return print_look(options.config)


COMMANDS: Final = {
    "init": Command("a first configuration for your questions and your model", _INIT, _init_options, _init),
    "look": Command("answers of the base model to a few questions, before a run", _LOOK, _look_options, _look),
    "plan": Command("memory, disk and hours of a configuration, before anything runs", _PLAN, _plan_options, _plan),
    "diagnose": Command(
        "did a model lose its diversity? two files of samples, a diagnosis", _DIAGNOSE, _diagnose_options, _diagnose
    ),
    "audit": Command("check every artifact of a run", _AUDIT, _audit_options, _audit),
    "show": Command("print one artifact", _SHOW, _show_options, _show),
    "lineage": Command("print the steps that made an artifact", _LINEAGE, _lineage_options, _lineage),
    "export": Command("prompts, stored responses and judge for TRL, verl, yours", _EXPORT, _export_options, _export),
}
