"""Metrics to where people watch them, while training runs; the parquet table is made whatever they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

Track = Callable[[int, Mapping[str, float]], None]


def open_trackers(names: Sequence[str], folder: Path, run: str, stack: ExitStack) -> Track:
    """A function that shows the metrics of a step to each tracker; `stack` closes them.

    Args:
        names: tensorboard, trackio or wandb; each needs its own package.
        folder: where those that keep files put them.
        run: name of this training there.

    Raises:
        ModuleNotFoundError: the package of a tracker is not installed.
    """
    tracks = [_open(name, folder, run, stack) for name in names]

    def track(step: int, metrics: Mapping[str, float]) -> None:
        for show in tracks:
            show(step, metrics)

    return track


def _open(name: str, folder: Path, run: str, stack: ExitStack) -> Track:
    if name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = stack.enter_context(SummaryWriter(str(folder / run)))

        def show(step: int, metrics: Mapping[str, float]) -> None:
            for key, value in metrics.items():
                writer.add_scalar(key, value, step)

        return show
    # These two have the same face.
    library = import_module(name)
    # A segment goes on in the run that the one before it opened.
    tracked = library.init(project="dphrl", name=run, **({"dir": str(folder), "id": run} if name == "wandb" else {}))
    stack.callback(library.finish)
    return lambda step, metrics: tracked.log(dict(metrics), step=step)
