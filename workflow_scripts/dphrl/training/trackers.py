"""Metrics to TensorBoard, Trackio or W&B while training runs; the parquet table does not depend on them."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

Track = Callable[[int, Mapping[str, float]], None]


def open_trackers(names: Sequence[str], folder: Path, run: str, stack: ExitStack) -> Track:
    """A function that sends the metrics of a step to each tracker; `stack` closes them.

    Args:
        names: tensorboard, trackio or wandb; each needs the package of that name.
        folder: for their files.
        run: name of this training in them.

    Raises:
        ModuleNotFoundError: the package of a tracker is not installed.
    """
    for name in names:
        if find_spec(name) is None:
            raise ModuleNotFoundError(
                f"train.trackers names {name}, whose package is not installed: pip install {name}, or remove it there",
                name=name,
            )
    tracks = [_OPENERS[name](folder, run, stack) for name in names]

    def track(step: int, metrics: Mapping[str, float]) -> None:
        for show in tracks:
            show(step, metrics)

    return track


def _tensorboard(folder: Path, run: str, stack: ExitStack) -> Track:
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(str(folder / run)))

    def show(step: int, metrics: Mapping[str, float]) -> None:
        for key, value in metrics.items():
            writer.add_scalar(key, value, step)
        # So that a segment that is killed has written its steps.
        writer.flush()

    return show


def _wandb(folder: Path, run: str, stack: ExitStack) -> Track:
    wandb = import_module("wandb")
    folder.mkdir(parents=True, exist_ok=True)
    # A segment continues the run of the segment before it.
    tracked = wandb.init(project="dphrl", name=run, id=run, dir=folder, resume="allow")
    stack.callback(tracked.finish)
    return lambda step, metrics: tracked.log(dict(metrics), step=step)


def _trackio(folder: Path, run: str, stack: ExitStack) -> Track:
    # Read when the package is imported; a value that the user set, for several projects, is kept.
    os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
    trackio = import_module("trackio")
    options = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
    tracked = trackio.init(project="dphrl", name=run, resume="allow", **options)
    stack.callback(tracked.finish)
    return lambda step, metrics: tracked.log(dict(metrics), step=step)


_OPENERS = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}
