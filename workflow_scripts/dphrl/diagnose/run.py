"""The run of `dphrl diagnose`: two or more files of samples in, a diagnosis out."""

import sys
from argparse import ArgumentError, Namespace
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.data.records import parts_of
from dphrl.data.sample_files import SampleFile, read_samples
from dphrl.diagnose.comparison import Comparison, KError, diagnose
from dphrl.diagnose.comparison_page import page, to_json
from dphrl.diagnose.joined import policy_names
from dphrl.diagnose.rescored import check_extra, judged, read_golds
from dphrl.diagnose.tables import text
from dphrl.store.files import replacing

# Files of so many bytes together are read by two processes.
_LARGE = 64 * 2**20
_READERS = 2


def run(options: Namespace) -> int:
    """Read, judge, compare, print and write; the exit status.

    Raises:
        ArgumentError: k or the name of a model is not possible.
    """
    rules = tuple(StyleRule(name=name, prefix=prefix) for name, prefix in options.styles)
    files, trainings, hotter = _read(options)
    named = dict(zip(policy_names(files), files, strict=True))
    if taken := named.keys() & trainings.keys():
        name = min(taken)
        raise ArgumentError(None, f"--trainings {name}=...: {named[name].path} is shown as {name}; take another name")
    try:
        with tqdm(total=len(files) - 1 + len(trainings), unit="", delay=2, disable=None, leave=False) as bar:

            def step(name: str) -> None:
                bar.set_description(name)
                bar.update()

            comparison = diagnose(
                files,
                trainings=trainings,
                hotter_files=hotter,
                k=options.k,
                margin=options.margin / 100.0,
                styles=rules,
                seed=options.seed,
                step=step,
            )
    except KError as error:
        raise ArgumentError(None, str(error)) from error
    named |= {f"{name} ({n})": file for name, several in trainings.items() for n, file in enumerate(several, 1)}
    _write(comparison, named | {f"hotter ({n})": file for n, file in enumerate(hotter, 1)}, options)
    print(text(comparison, options.all))
    for path in (options.html, options.json):
        if path:
            print(f"Written: {path}", file=sys.stderr)
    return comparison.exit_code


def _read(options: Namespace) -> tuple[list[SampleFile], dict[str, list[SampleFile]], list[SampleFile]]:
    """The base and the tuned models, the trainings of further models, and the hotter files."""
    if options.task:
        # Before files are read: it may take a while.
        check_extra(options.task)
    trainings = {name: [Path(file) for file in files.split(",") if file] for name, files in options.trainings}
    if len(trainings) < len(options.trainings) or not all(trainings.values()):
        raise ArgumentError(None, "--trainings: name each model once, with all of its files: NAME=FILE,FILE")
    paths = [
        options.base,
        *options.tuned,
        *(path for several in trainings.values() for path in several),
        *options.hotter,
    ]
    mapping = dict(options.map) | ({"cluster": options.cluster} if options.cluster else {})
    read = partial(read_samples, format=options.format, mapping=mapping, threshold=options.threshold)
    if sum(part.stat().st_size for path in paths for part in parts_of(path)) < _LARGE:
        files = list(map(read, paths))
    else:
        with ProcessPoolExecutor(_READERS, mp_context=get_context("spawn")) as processes:
            files = list(processes.map(read, paths))
    if options.task:
        golds = read_golds(options.gold) if options.gold else None
        files = [judged(file, options.task, golds, options.databases) for file in files]
    rest = iter(files)
    first = [next(rest) for _ in range(1 + len(options.tuned))]
    return first, {name: [next(rest) for _ in several] for name, several in trainings.items()}, list(rest)


def _write(comparison: Comparison, files: Mapping[str, SampleFile], options: Namespace) -> None:
    if options.json:
        with replacing(options.json) as temporary:
            temporary.write_text(to_json(comparison, files), encoding="utf-8")
    if options.html:
        with replacing(options.html) as temporary:
            temporary.write_text(page(comparison, files), encoding="utf-8", errors="replace")
