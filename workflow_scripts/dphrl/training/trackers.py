"""Metrics while training runs: a file of lines, TensorBoard, Trackio or W&B. No artifact depends on them."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Sampled(NamedTuple):
    """A rollout that is shown."""

    prompt_id: str
    reward: float
    text: str


Track = Callable[[int, Mapping[str, float], Sequence[Sampled]], None]


def open_trackers(names: Sequence[str], folder: Path, run: str, lines: Path | None, stack: ExitStack) -> Track:
    """A function that sends the metrics of a step and some rollouts to each tracker; `stack` closes them.

    Args:
        names: tensorboard, trackio or wandb; each needs the package of that name. Trackio and W&B get no rollouts.
        folder: for their files.
        run: name of this training in them.
        lines: gets a line of JSON for each step; None: there is no such file.

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
    if lines is not None:
        tracks.append(_lines(lines, stack))

    def track(step: int, metrics: Mapping[str, float], rollouts: Sequence[Sampled]) -> None:
        for show in tracks:
            show(step, metrics, rollouts)

    return track


def _lines(path: Path, stack: ExitStack) -> Track:
    # Each line is written at once, so a reader sees whole steps.
    file = stack.enter_context(path.open("w", encoding="utf-8", buffering=1))

    def show(step: int, metrics: Mapping[str, float], rollouts: Sequence[Sampled]) -> None:
        shown = [rollout._asdict() for rollout in rollouts]
        file.write(json.dumps({"step": step, **metrics, "rollouts": shown}) + "\n")

    return show


def _tensorboard(folder: Path, run: str, stack: ExitStack) -> Track:
    from torch.utils.tensorboard import SummaryWriter

    writer = stack.enter_context(SummaryWriter(str(folder / run)))

    def show(step: int, metrics: Mapping[str, float], rollouts: Sequence[Sampled]) -> None:
        for key, value in metrics.items():
            writer.add_scalar(key, value, step)
        for number, rollout in enumerate(rollouts):
            # As a code block of Markdown: its page shows the text of a model as it is.
            lines = rollout.text.encode(errors="replace").decode().splitlines()
            text = "\n".join(f"    {line}" for line in lines)
            writer.add_text(f"rollout/{number}", f"{rollout.prompt_id}, reward {rollout.reward:g}\n\n{text}", step)
        # A killed segment must leave its steps.
        writer.flush()

    return show


def _wandb(folder: Path, run: str, stack: ExitStack) -> Track:
    wandb = import_module("wandb")
    folder.mkdir(parents=True, exist_ok=True)
    # A segment continues the run of the segment before it.
    tracked = wandb.init(project="dphrl", name=run, id=run, dir=folder, resume="allow")
    stack.callback(tracked.finish)
    return lambda step, metrics, rollouts: tracked.log(dict(metrics), step=step)


def _trackio(folder: Path, run: str, stack: ExitStack) -> Track:
    # Read when the package is imported; a value that the user set, for several projects, is kept.
    os.environ.setdefault("TRACKIO_DIR", str(folder / "trackio"))
    trackio = import_module("trackio")
    options = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False}
    tracked = trackio.init(project="dphrl", name=run, resume="allow", **options)
    stack.callback(tracked.finish)
    return lambda step, metrics, rollouts: tracked.log(dict(metrics), step=step)


_OPENERS = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}
