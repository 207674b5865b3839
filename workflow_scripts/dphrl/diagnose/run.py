"""The run of `dphrl diagnose`: two or more files of samples in, a verdict out."""

import sys
from argparse import ArgumentError, Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from pydantic import ValidationError
from tqdm import tqdm

from dphrl.artifacts.files import replacing
from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.diagnose.diagnosis import Diagnosis, KError, diagnose
from dphrl.diagnose.judge import check_extra, judged, read_golds
from dphrl.diagnose.page import page, to_json
from dphrl.diagnose.tables import text
from dphrl.sample_files.records import parts_of
from dphrl.sample_files.samples import SampleFile, read_samples

_STEPS = 5
# Files of so many bytes together are read by two processes.
_LARGE = 64 * 2**20
_READERS = 2


def run(options: Namespace) -> int:
    """Read, judge, compare, print and write; the exit status.

    Raises:
        ArgumentError: a style or k is not possible.
    """
    try:
        rules = tuple(StyleRule(name=name, prefix=prefix) for name, prefix in options.styles)
        EvaluateConfig(styles={"samples": rules})
    except ValidationError as error:
        raise ArgumentError(None, f"--styles: {error.errors()[0]['msg']}") from error
    files = _read(options)
    try:
        with tqdm(total=_STEPS, unit="", delay=2, disable=None, leave=False) as bar:

            def step(name: str) -> None:
                bar.set_description(name)
                bar.update()

            margin = options.margin / 100.0
            diagnosis = diagnose(files, k=options.k, margin=margin, styles=rules, seed=options.seed, step=step)
    except KError as error:
        raise ArgumentError(None, str(error)) from error
    _write(diagnosis, files, options)
    print(text(diagnosis))
    for path in (options.html, options.json):
        if path:
            print(f"Written: {path}", file=sys.stderr)
    return diagnosis.exit_code


def _read(options: Namespace) -> list[SampleFile]:
    if options.task:
        # Before files are read: it may take a while.
        check_extra(options.task)
    paths = (options.base, *options.tuned)
    read = partial(read_samples, format=options.format, mapping=dict(options.map), threshold=options.threshold)
    if sum(part.stat().st_size for path in paths for part in parts_of(path)) < _LARGE:
        files = list(map(read, paths))
    else:
        with ProcessPoolExecutor(_READERS, mp_context=get_context("spawn")) as processes:
            files = list(processes.map(read, paths))
    if not options.task:
        return files
    golds = read_golds(options.gold) if options.gold else None
    return [judged(file, options.task, golds, options.databases) for file in files]


def _write(found: Diagnosis, files: Sequence[SampleFile], options: Namespace) -> None:
    if options.json:
        with replacing(options.json) as temporary:
            temporary.write_text(to_json(found, files), encoding="utf-8")
    if options.html:
        with replacing(options.html) as temporary:
            temporary.write_text(page(found, files), encoding="utf-8", errors="replace")
