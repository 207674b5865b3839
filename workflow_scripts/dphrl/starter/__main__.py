"""`dphrl init`: the smallest configuration for a file of questions and a model."""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dphrl.pages.visible import visible

_EPILOG = """\
examples:
  dphrl init --data questions.jsonl --model models/Qwen3-0.6B
  dphrl init --data hf://datasets/ORG/NAME/FILE --model ORG/NAME
  dphrl init --data train.json --databases databases --test dev.json --model models/Llama-3.1-8B-Instruct
  dphrl init --data mine.jsonl --field question=prompt_text --field answer=label --model models/mine --cpu
  dphrl init --data mine.jsonl --task one_of --scorer my_scorer.py --model models/mine

The task is found by the fields: sql (db_id and a gold query), math (an answer or a solution with \\boxed{}). Any other
task needs --task and --scorer (docs/how-to/own-scorer.md). Paths are relative to the folder in which the
workflow will run. A file that is there is never replaced.

exit status: 0, 1 if no configuration can be written (the message has the file and what was expected), 2 usage"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status."""
    parser = argparse.ArgumentParser(
        prog="dphrl init",
        description="Looks at a file of questions, chooses the task, and writes the smallest commented configuration\n"
        "that passes the checks of the workflow.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data",
        metavar="FILE",
        required=True,
        help="questions to train on: .jsonl, .json or .parquet, or their name on the hub",
    )
    parser.add_argument(
        "--model",
        metavar="DIR",
        required=True,
        help="the base model: a folder (config.json, *.safetensors, tokenizer), or its name on the hub",
    )
    parser.add_argument("--test", metavar="FILE", help="questions to evaluate on (default: those of --data)")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="the configuration (default: the name of --data, .yaml)"
    )
    parser.add_argument("--task", help="sql, math, or the name that --scorer registers (default: by the fields)")
    parser.add_argument("--scorer", metavar="FILE", help="a Python file with a custom scorer")
    parser.add_argument(
        "--databases", metavar="DIR", help="<db_id>/<db_id>.sqlite (default: `database` next to --data)"
    )
    parser.add_argument(
        "--field",
        metavar="OURS=THEIRS",
        action="append",
        default=[],
        help="the file's name of a field, where it is not found: question, answer, db_id, gold_sql, ground_truth, ...",
    )
    parser.add_argument("--gpu-gib", type=float, default=80.0, help="memory of a GPU in GiB (default: 80)")
    parser.add_argument("--cpu", action="store_true", help="a machine without GPUs: small models only")
    given = parser.parse_args(arguments)
    if (given.scorer is None) != (given.task in (None, "sql", "math")):
        parser.error("--task NAME and --scorer FILE belong together, for a task that is neither sql nor math")
    if wrong := [pair for pair in given.field if not all(pair.partition("="))]:
        parser.error(f"--field {wrong[0]}: expected OURS=THEIRS, for instance question=prompt_text")
    # Help needs none of this.
    from dphrl.config.errors import ConfigError
    from dphrl.starter.starter import Wish, starter

    out = given.out or Path(f"{Path(given.data).stem}.yaml")
    try:
        text, found, ranks = starter(
            Wish(
                name=out.stem,
                data=given.data,
                model=given.model,
                test=given.test,
                task=given.task,
                scorer=given.scorer,
                databases=given.databases,
                fields=dict(pair.split("=", 1) for pair in given.field),
                gpu_gib=None if given.cpu else given.gpu_gib,
            )
        )
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        print(
            visible(f"dphrl init: {out} is there already: name another file with --out, or remove it"), file=sys.stderr
        )
        return 1
    except (OSError, ValueError, ConfigError) as error:
        print(visible(f"dphrl init: {error}"), file=sys.stderr)
        return 1
    steps = "\n".join(_next_steps(out, None if given.cpu else given.gpu_gib, ranks))
    print(visible(f"{found}\nWritten: {out}\n\nNext:\n{steps}"))
    return 0


def _next_steps(out: Path, gpu_gib: float | None, ranks: int) -> Iterator[str]:
    """The commands that follow: what it costs, whether there is anything to rehearse, and the whole run."""
    dphrl = "dphrl" if shutil.which("dphrl") else ".venv/bin/dphrl"
    yield f"  {dphrl} plan {out}" + (f" --gpu-gib {gpu_gib:g} --slots {ranks}" if gpu_gib else "")
    if gpu_gib:
        run, end = ".venv/bin/snakemake", f"--profile profiles/gpu-node --configfile {out}"
        yield f"  {run} partition {end}"
    else:
        run, end = "make run", f"CONFIG={out}"
        yield f"  {run} {end} TARGET=partition"
    yield "      # says how large D_pef is; where it is empty or small, lower partition.pef_min_correct"
    yield f"  {run} {end}"


if __name__ == "__main__":
    sys.exit(main())
