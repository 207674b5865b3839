"""The plan of a configuration as text, and the jobs that cannot fit on its GPUs."""

import math
import time
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tabulate import tabulate

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import read_config
from dphrl.config.notices import strengths
from dphrl.hub import model_config, model_name
from dphrl.machine.progress import counted, duration
from dphrl.plan.memory import (
    GB,
    LESS_MEMORY,
    ModelShape,
    Phase,
    Setting,
    base_phase,
    host_bytes,
    phases,
    reference_phase,
    sampling_phase,
    training_bytes,
)
from dphrl.plan.work import ASSUMED_PROMPTS, PLANS, Sizes, Stage, drawn_datasets, sizes_of, stages

_ORDER = f"change, in this order: hardware.{', '.join(dict.fromkeys(key for keys in LESS_MEMORY for key in keys))}"


def shape_of(config: Config, folder: Path, *, online: bool = False) -> ModelShape | None:
    """The shape of the base model, from its config.json or the block `toy`; None for recorded answers.

    Args:
        online: whether the config.json of a name of the hub may be fetched; else it must be in the cache.

    Raises `ValueError` as `ModelShape.from_config` does, and `ConfigError` without a config.json.
    """
    base = config.policy.base
    if base is not None:
        settings = model_config(base, folder, online=online)
        if settings is None and model_name(base, folder):
            raise ValueError(f"config.json of {base} is not in the cache (`dphrl plan` fetches it)")
        if settings is None:
            need = "a folder with the model's config.json; a plan reads this alone, so copy it without the weights"
            raise ConfigError([Problem("policy.base", f"{base}, in which there is no config.json", need)])
        return ModelShape.from_config(settings)
    if config.toy is None:
        return None
    model = config.toy.model
    return ModelShape.from_config(
        {
            "model_type": "llama",
            "num_hidden_layers": model.layers,
            "hidden_size": model.width,
            "num_attention_heads": model.heads,
            "vocab_size": config.toy.vocabulary,
            "intermediate_size": model.feed_forward,
        }
    )


def print_plan(files: Sequence[Path], gpu_gib: float | None, slots: int | None, tflops: float | None) -> int:
    """Print the plan of a configuration; the exit status is 1 if a job does not fit.

    Args:
        gpu_gib: memory of a GPU; None: `hardware.gpu_gib`.
        slots: GPUs, or CPU cores, that work at the same time; None: 2, or those of the largest job.
        tflops: 10^12 operations/s that each of them reaches; None: those of a matrix product on this machine.

    Raises:
        ConfigError, ValueError: the configuration or an option is not valid.
    """
    config, folder = read_config(*files), Path.cwd()
    gpu_gib = config.gpu_gib if gpu_gib is None else gpu_gib
    largest = max(config.hardware.ranks, config.hardware.tensor_parallel)
    slots = max(2, largest) if slots is None else slots
    if slots < largest or any(number is not None and number <= 0 for number in (gpu_gib, tflops)):
        raise ValueError(f"expected --slots of at least {largest}, by hardware, and --gpu-gib and --tflops above 0")
    shape, sizes = shape_of(config, folder, online=True), sizes_of(config, folder)
    planned = stages(config, shape, sizes) if shape else []
    if shape is None or not planned:
        print("A run of recorded answers: it needs no model, and seconds for each thousand answers.")
        return 0
    unit, device = ("GPU", "cuda") if gpu_gib else ("core", "cpu")
    speed = tflops * 1e12 if tflops else product_speed(config.train.dtype, device)
    lines = [
        f"{config.run}: a model of {shape.parameters:,} parameters",
        *(_memory(config, shape) if gpu_gib else ()),
        f"\n{_work_table(planned, speed, unit)}\n",
        _hours(planned, speed, unit, slots),
        *_lengths(config, sizes),
        *slow_products(config),
        *strengths(config),
    ]
    print("\n".join(lines))
    if gpu_gib is None:
        return 0
    try:
        check_memory(config, shape, gpu_gib)
    except ConfigError as error:
        print(f"\nThis does not fit.\n{error}")
        return 1
    print(f"\nEverything fits on GPUs of {gpu_gib:g} GiB.")
    return 0


def at_start(config: Config, folder: Path) -> Iterator[str]:
    """Lines for a user before a run starts: the planned memory per GPU and disk of the trainings.

    The embedded world has no line about memory. A run without trainings or without a model has no lines at all.

    Args:
        folder: relative paths of the configuration start here.

    Raises:
        ConfigError: a job cannot fit on `hardware.gpu_gib`.
    """
    try:
        shape = shape_of(config, folder)
    except ValueError as error:
        yield f"policy.base: {error}, so memory and disk are not planned"
        return
    if shape is None:
        return
    if config.gpu_gib:
        check_memory(config, shape, config.gpu_gib)
    if not config.methods:
        return
    if config.gpu_gib:
        yield from _memory(config, shape)
    settings = {name: Setting.of(config, name, shape) for name in config.methods}
    disk = sum(
        len(config.seeds(name)) * training_bytes(shape, setting, config.train, config.steps(name))
        for name, setting in settings.items()
    )
    trainings = counted(config.trainings, "training")
    yield (
        f"Disk: at most {disk / GB:,.1f} GB for the policies and optimizer states of {trainings} "
        f"(train.keep_state: {config.train.keep_state})"
    )


def check_memory(config: Config, shape: ModelShape, gpu_gib: float) -> None:
    """Raises a `ConfigError` with each job that does not fit on a GPU: its largest phase, and the keys to change."""
    limit, problems = gpu_gib * 2**30, []
    for job, of_job, advice in _jobs(config, shape):
        largest = max(of_job, key=lambda phase: phase.total)
        if largest.total > limit:
            parts = ", ".join(f"{name} {size / GB:.0f}" for name, size in largest.parts.items() if size > GB)
            need = f"{largest.total / GB:.0f} GB per GPU while {largest.name} ({parts})"
            problems.append(Problem(job, need, f"at most {limit / GB:.0f} GB ({gpu_gib:g} GiB); {advice}"))
    if problems:
        raise ConfigError(problems)


def _jobs(config: Config, shape: ModelShape) -> Iterator[tuple[str, list[Phase], str]]:
    """The jobs with a model that differ in memory: name, phases, and advice if they do not fit."""
    of_all = Setting.of(config, None, shape)
    if config.policy.supervised:
        advice = "name a model that had its start elsewhere in policy.base"
        yield "policy.supervised", [base_phase(shape, config.policy.supervised)], advice
    if any(drawn_datasets(config, plan) for plan in PLANS):
        advice = "raise hardware.tensor_parallel, or lower hardware.sampling_kv_cache_gib"
        yield "sampling", [sampling_phase(shape, of_all)], advice
    if config.methods:
        yield "reference", [reference_phase(shape, of_all)], _ORDER
    methods: dict[Setting, list[str]] = {}
    for name in config.methods:
        methods.setdefault(Setting.of(config, name, shape), []).append(name)
    for setting, names in methods.items():
        yield f"methods {', '.join(names)}", phases(shape, setting), _ORDER


def _memory(config: Config, shape: ModelShape) -> Iterator[str]:
    """A line for each job: its phases."""
    yield "Memory per GPU in GB, planned:"
    for job, of_job, _ in _jobs(config, shape):
        totals = (f"{phase.name} {phase.total / GB:.1f}".removeprefix(f"{job} ") for phase in of_job)
        yield f"  {job}: {', '.join(totals)}"
    if config.methods and config.hardware.offload_optimizer:
        host = max(host_bytes(shape, Setting.of(config, name, shape)) for name in config.methods)
        yield f"  host memory per rank: {host / GB:.1f}"


def _work_table(planned: Sequence[Stage], speed: float, unit: str) -> str:
    rows = [_row(stage.name, stage.gpus, [stage], speed) for stage in planned] + [_row("all", None, planned, speed)]
    head = f"stage,{unit}s each,jobs,tokens drawn,tokens in passes,operations,{unit} hours,GB of disk".split(",")
    return tabulate(rows, head, floatfmt=("", "", "", ",.0f", ",.0f", ".1e", ",.2f", ",.1f"), missingval="-")


def _row(name: str, gpus: int | None, together: Sequence[Stage], speed: float) -> tuple[object, ...]:
    jobs, drawn, passed, operations, size = (
        sum(getattr(stage, field) for stage in together) for field in ("jobs", "drawn", "passed", "operations", "size")
    )
    hours = None if math.isnan(speed) else operations / speed / 3600
    return name, gpus, jobs, drawn, passed, operations, hours, size / GB


def _hours(planned: Sequence[Stage], speed: float, unit: str, slots: int) -> str:
    if math.isnan(speed):
        return f"Hours: this machine has no {unit} with torch; --tflops gives the speed that one reaches"
    least = duration(sum(stage.operations for stage in planned) / speed / slots)
    rate = f"{speed / 1e12:,.3g} TFLOP/s of a {unit}"
    return f"Hours: of the model's products at {rate}; a job does more; at least {least} on {slots} {unit}s"


def _lengths(config: Config, sizes: Sizes) -> Iterator[str]:
    """The mean lengths of each dataset, and which of them are assumed."""
    if sizes.absent:
        yield f"Not there, so {ASSUMED_PROMPTS:,} questions are assumed in each: {', '.join(sizes.absent)}"
    lengths = [
        f"{name} {sizes.prompt_tokens[name]:,.0f} and {sizes.response_tokens[name]:,.0f}"
        + ("" if name in sizes.measured else " (assumed)")
        for name in config.datasets
    ]
    yield f"Mean tokens of a prompt and of a response: {', '.join(lengths)}"
    if set(config.datasets) - sizes.measured:
        yield "Lengths are measured where samples are drawn: of the training set after target presample"


@cache
def product_speed(dtype: str, device: str, width: int | None = None) -> float:
    """Operations/s of one core (`cpu`) or GPU (`cuda`) in products of square matrices; nan where there is none to ask.

    It is the best of twenty products, since other work makes a core slower, or of those within a second.
    """
    if find_spec("torch") is None:
        return math.nan
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        return math.nan
    width, threads, best = width or (1024 if device == "cpu" else 8192), torch.get_num_threads(), math.inf
    torch.set_num_threads(1)
    matrix = torch.ones(width, width, dtype=getattr(torch, dtype), device=device)
    end = time.perf_counter() + 1
    for _ in range(20):
        before = time.perf_counter()
        product = matrix @ matrix
        product[0, 0].item()  # waits for the GPU
        best = min(best, time.perf_counter() - before)
        if before + best > end:
            break
    torch.set_num_threads(threads)
    return 2 * width**3 / best


def faster_dtype(width: int | None = None) -> str:
    """The dtype in which one core computes products of square matrices faster.

    A processor without bfloat16 emulates it: an EPYC of 2021 is 60 times slower in it than in float32.
    """
    speeds = {dtype: product_speed(dtype, "cpu", width) for dtype in ("float32", "bfloat16")}
    # bfloat16 rounds more, so it is chosen only where it is clearly faster.
    return "bfloat16" if speeds["bfloat16"] > 1.5 * speeds["float32"] else "float32"


def slow_products(config: Config) -> Iterator[str]:
    """A line for a run on CPU cores in bfloat16, if this processor emulates it."""
    on_cores = config.gpu_gib is None and config.policy.base is not None
    if not on_cores or "bfloat16" not in (config.engine.dtype, config.train.dtype):
        return
    single, half = (product_speed(dtype, "cpu") / 1e9 for dtype in ("float32", "bfloat16"))
    if half < single:
        yield (
            f"engine.dtype, train.dtype: this processor emulates bfloat16, at {half:,.0f} GFLOP/s of a core; float32 "
            f"has {single:,.0f}, so set float32"
        )
