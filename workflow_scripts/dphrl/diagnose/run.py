"""The run of `dphrl diagnose`: two or more files of samples in, a diagnosis out."""

import sys
from argparse import ArgumentError, Namespace
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.data.records import parts_of
from dphrl.data.sample_files import SampleFile, read_samples
from dphrl.diagnose.comparison import diagnose
from dphrl.diagnose.comparison_page import page, to_json
from dphrl.diagnose.comparison_tables import text
from dphrl.diagnose.joined import policy_names
from dphrl.diagnose.rescored import check_extra, judged, read_golds
from dphrl.store.files import replacing

# Files of so many bytes together are read by two processes.
_LARGE = 64 * 2**20
_READERS = 2


def run(options: Namespace) -> int:
    """Read, judge, compare, print and write; the exit status.

    Raises:
        ArgumentError: the name of a model is not possible.
    """
    if options.task:
        # Before files are read: it may take a while.
        check_extra(options.task)
    trainings = {name: [Path(path) for path in paths.split(",") if path] for name, paths in options.trainings}
    if len(trainings) < len(options.trainings) or not all(trainings.values()):
        raise ArgumentError(None, "--trainings: name each model once, with all of its files: NAME=FILE,FILE")
    several = (path for paths in trainings.values() for path in paths)
    files = _read([options.base, *options.tuned, *several, *options.hotter], options)
    first = [files[path] for path in (options.base, *options.tuned)]
    for name, file in zip(policy_names(first), first, strict=True):
        if name in trainings:
            raise ArgumentError(None, f"--trainings {name}=...: {file.path} is shown as {name}; take another name")
    comparison = diagnose(
        first,
        trainings={name: [files[path] for path in paths] for name, paths in trainings.items()},
        hotter_files=[files[path] for path in options.hotter],
        k=options.k,
        margin=options.margin / 100.0,
        styles=tuple(StyleRule(name=name, prefix=prefix) for name, prefix in options.styles),
    )
    print(text(comparison, options.all))
    for path, written in ((options.json, to_json), (options.html, page)):
        if path:
            with replacing(path) as temporary:
                temporary.write_bytes(written(comparison))
            print(f"Written: {path}", file=sys.stderr)
    return comparison.exit_code


def _read(every: Iterable[Path], options: Namespace) -> dict[Path, SampleFile]:
    """The files by path, judged where the user asks for it."""
    paths = list(dict.fromkeys(every))
    read = partial(read_samples, mapping=dict(options.map), threshold=options.threshold, verdicts=not options.task)
    if sum(part.stat().st_size for path in paths for part in parts_of(path)) < _LARGE:
        files = list(map(read, paths))
    else:
        with ProcessPoolExecutor(_READERS, mp_context=get_context("spawn")) as processes:
            files = list(processes.map(read, paths))
    if options.task:
        golds = read_golds(options.gold, options.task) if options.gold else None
        files = [judged(file, options.task, golds, options.databases) for file in files]
    return dict(zip(paths, files, strict=True))
