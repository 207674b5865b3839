"""`dphrl diagnose`: did a tuned model lose its diversity? Two or more files of samples in, a verdict out."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import polars as pl
from pydantic import ValidationError
from tqdm import tqdm

from dphrl.artifacts.files import replacing
from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.diagnose.diagnosis import Diagnosis, KError, diagnose
from dphrl.diagnose.joined import policy_names
from dphrl.diagnose.judge import check_extra, judged, read_golds
from dphrl.diagnose.page import page, to_json
from dphrl.diagnose.tables import text
from dphrl.pages.visible import visible
from dphrl.sample_files.records import SourceError, parts_of
from dphrl.sample_files.samples import SampleFile, read_samples
from dphrl.scoring.verdict import InfrastructureError

# Files of so many bytes together are read by two processes.
_LARGE = 64 * 2**20
_READERS = 2
_EPILOG = """\
examples:
  dphrl diagnose base.jsonl tuned.jsonl
  dphrl diagnose base.jsonl step100.jsonl step200.jsonl --html page.html
  dphrl diagnose base.parquet tuned.parquet --map text=response --map correct=passed
  dphrl diagnose base.jsonl tuned.jsonl --task math --gold answers.jsonl
  dphrl diagnose results/demo/verdicts/base/maths.evaluate results/demo/verdicts/grpo-s1/step40/maths.evaluate

Verdicts: COLLAPSED (coverage fell, by more than lower accuracy explains), WORSE (accuracy explains it), SHARPENED
(drawing hotter recovers it), NARROWED (coverage holds, right answers vary less), NOT COLLAPSED (no loss of the margin
is left open), CANNOT TELL (with the reason). docs/diagnose.md says what each does not mean, and what to do next.

exit status: 0 NOT COLLAPSED, NARROWED or SHARPENED, 2 usage or an unreadable file, 3 COLLAPSED or WORSE (a model, after
correction for several), 4 CANNOT TELL"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; the exit status."""
    parser = _parser()
    given = parser.parse_args(arguments)
    _check(parser, given)
    try:
        files, trainings, hotter = _read(given)
        with tqdm(total=len(files) - 1 + len(trainings), unit="", delay=2, disable=None, leave=False) as bar:

            def step(name: str) -> None:
                bar.set_description(name)
                bar.update()

            found = diagnose(
                files,
                trainings=trainings,
                hotter_files=hotter,
                k=given.k,
                margin=given.margin / 100.0,
                styles=given.styles or (),
                seed=given.seed,
                step=step,
            )
        named = dict(zip(policy_names(files), files, strict=True))
        named |= {f"{name} ({n})": file for name, several in trainings.items() for n, file in enumerate(several, 1)}
        _write(found, named | {f"hotter ({n})": file for n, file in enumerate(hotter, 1)}, given)
    except KError as error:
        parser.error(visible(str(error)))
    except (
        OSError,
        pl.exceptions.PolarsError,
        SourceError,
        InfrastructureError,
        ValueError,
    ) as error:
        print(visible(f"dphrl diagnose: {error}"), file=sys.stderr)
        return 2
    print(text(found))
    for path in (given.html, given.json):
        if path:
            print(f"Written: {path}", file=sys.stderr)
    return found.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dphrl diagnose",
        description="Did a tuned model lose its diversity? Compares files of samples, as many tools write them, of a "
        "base model and of models tuned from it, on the questions that all files answer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "base",
        metavar="BASE",
        type=Path,
        help="samples of the base model: .jsonl, .json, .parquet, or a folder of .parquet files",
    )
    parser.add_argument("tuned", metavar="TUNED", nargs="*", type=Path, help="samples of a tuned model, or of several")
    parser.add_argument(
        "--trainings",
        metavar="NAME=FILE,FILE,...",
        action="append",
        type=_trainings,
        default=[],
        help="several trainings of one method, judged as one model; several times",
    )
    parser.add_argument(
        "--hotter",
        metavar="FILE",
        nargs="+",
        type=Path,
        default=[],
        help="samples of the tuned model at higher temperatures: does drawing hotter recover a loss?",
    )
    verdict = parser.add_argument_group("verdict")
    verdict.add_argument(
        "--k", type=int, help="k of pass@k (default: the largest power of two up to half of the samples)"
    )
    verdict.add_argument(
        "--margin", type=float, default=5.0, help="loss in points that NOT COLLAPSED excludes (default: 5)"
    )
    verdict.add_argument("--seed", type=int, default=0, help="of resampled intervals and halves (default: 0)")
    verdict.add_argument(
        "--styles",
        metavar="NAME=PREFIX",
        action="append",
        type=_style,
        help="a style of responses, by how they start; several times, the first that fits counts",
    )
    reading = parser.add_argument_group("how the files are read")
    reading.add_argument(
        "--format", help="verl, trl, lm-eval, verifiers, qwen-math, dphrl or plain (default: by the fields)"
    )
    reading.add_argument(
        "--map",
        metavar="OURS=THEIRS",
        action="append",
        type=_pair,
        default=[],
        help="the file's name of a field: question_id, question, text, correct, score, gold, level, cluster, n, c, "
        "truncated, finish_reason, sample_index; nested: rollouts.*.text",
    )
    reading.add_argument(
        "--cluster",
        metavar="FIELD",
        help="the file's field that groups questions, such as db_id: intervals over groups",
    )
    reading.add_argument("--threshold", type=float, help="a sample is right if its score is at least this")
    judging = parser.add_argument_group("judging here, in a sandbox")
    judging.add_argument("--task", choices=("math", "sql"), help="judge the samples; needs the extra [math] or [sql]")
    judging.add_argument("--gold", metavar="FILE", type=Path, help="gold answers by id, if the files have none")
    judging.add_argument("--databases", metavar="DIR", type=Path, help="<db_id>/<db_id>.sqlite, for --task sql")
    output = parser.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", type=Path, help="one self-contained page")
    output.add_argument("--json", metavar="FILE", type=Path, help="everything, for machines")
    return parser


def _pair(given: str) -> tuple[str, str]:
    name, sign, value = given.partition("=")
    if not (name and sign and value):
        raise argparse.ArgumentTypeError(f"{given!r}: expected NAME=VALUE")
    return name, value


def _trainings(given: str) -> tuple[str, list[Path]]:
    name, files = _pair(given)
    return name, [Path(file) for file in files.split(",") if file]


def _style(given: str) -> StyleRule:
    name, prefix = _pair(given)
    try:
        return StyleRule(name=name, prefix=prefix)
    except ValidationError as error:
        raise argparse.ArgumentTypeError(str(error.errors()[0]["msg"])) from error


def _check(parser: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with a usage error where options do not go together."""
    if given.k is not None and given.k < 1:
        parser.error(f"--k {given.k}: expected 1 or more")
    if not 0.0 < given.margin < 100.0:
        parser.error(f"--margin {given.margin:g}: expected points between 0 and 100")
    if not given.tuned and not given.trainings:
        parser.error("the following arguments are required: TUNED (or --trainings NAME=FILE,FILE)")
    if given.hotter and (len(given.tuned) != 1 or given.trainings):
        parser.error("--hotter is about one tuned model: name one TUNED, and no --trainings")
    if given.gold and not given.task:
        parser.error("--gold is for judging here: add --task math or --task sql")
    if given.task == "sql" and not given.databases:
        parser.error("--task sql needs --databases DIR, the folder of <db_id>/<db_id>.sqlite")
    try:
        EvaluateConfig(styles={"samples": tuple(given.styles or ())})
    except ValidationError as error:
        parser.error(f"--styles: {error.errors()[0]['msg']}")


def _read(given: argparse.Namespace) -> tuple[list[SampleFile], dict[str, list[SampleFile]], list[SampleFile]]:
    """The base and the tuned models, the trainings of further models, and the hotter files."""
    if given.task:
        # Before files are read: it may take a while.
        check_extra(given.task)
    trainings = dict(given.trainings)
    paths = [given.base, *given.tuned, *(path for several in trainings.values() for path in several), *given.hotter]
    mapping = dict(given.map) | ({"cluster": given.cluster} if given.cluster else {})
    read = partial(read_samples, format=given.format, mapping=mapping, threshold=given.threshold)
    if sum(part.stat().st_size for path in paths for part in parts_of(path)) < _LARGE:
        files = list(map(read, paths))
    else:
        with ProcessPoolExecutor(_READERS, mp_context=get_context("spawn")) as processes:
            files = list(processes.map(read, paths))
    if given.task:
        golds = read_golds(given.gold) if given.gold else None
        files = [judged(file, given.task, golds, given.databases) for file in files]
    rest = iter(files)
    first = [next(rest) for _ in range(1 + len(given.tuned))]
    return first, {name: [next(rest) for _ in several] for name, several in trainings.items()}, list(rest)


def _write(found: Diagnosis, files: Mapping[str, SampleFile], given: argparse.Namespace) -> None:
    if given.json:
        with replacing(given.json) as temporary:
            temporary.write_text(to_json(found, files), encoding="utf-8")
    if given.html:
        with replacing(given.html) as temporary:
            temporary.write_text(page(found, files), encoding="utf-8", errors="replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
