"""The plan of a configuration as text, and the jobs that cannot fit on its GPUs."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from tabulate import tabulate

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import read_config
from dphrl.config.notices import notices
from dphrl.hub import model_config, model_name
from dphrl.machine.progress import duration
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
)
from dphrl.plan.work import ASSUMED_PROMPTS, PLANS, REACHED, Sizes, Stage, drawn_datasets, sizes_of, stages

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
        if settings is None and not online and model_name(base, folder):
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
        tflops: 10^12 operations/s that each of them reaches; None: `REACHED`.

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
    unit = "GPU" if gpu_gib else "core"
    speed = tflops * 1e12 if tflops else REACHED[unit]
    hours = duration(sum(stage.seconds(speed) for stage in planned) / slots)
    rate = f"{speed / 1e12:,.3g} TFLOP/s of a {unit} (--tflops)"
    lines = [
        f"{config.run}: a model of {shape.parameters:,} parameters",
        *(_memory(config, shape) if gpu_gib else ()),
        f"\n{_work_table(planned, speed, unit)}\n",
        f"Hours: the model's products at {rate} and the start of each job; {hours} on {slots} {unit}s",
        *_lengths(config, sizes),
        *notices(config),
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


def check_fits(config: Config, folder: Path) -> None:
    """Check the memory of all jobs against `hardware.gpu_gib`; a model of unknown sizes is not checked.

    Args:
        folder: relative paths of the configuration start here.

    Raises:
        ConfigError: a job cannot fit, or the base model has no config.json.
    """
    try:
        shape = shape_of(config, folder)
    except ValueError:
        return
    if shape and config.gpu_gib:
        check_memory(config, shape, config.gpu_gib)


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
    counts = attrgetter("name", "gpus", "jobs", "drawn", "passed", "operations")
    rows = [(*counts(stage), stage.seconds(speed) / 3600, stage.size / GB) for stage in planned]
    sums = [sum(column) for column in [*zip(*rows, strict=True)][2:]]
    head = f"stage,{unit}s each,jobs,tokens drawn,tokens in passes,operations,{unit} hours,GB of disk".split(",")
    floats = ("", "", "", ",.0f", ",.0f", ".1e", ",.2f", ",.1f")
    return tabulate([*rows, ("all", None, *sums)], head, floatfmt=floats, missingval="-")


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
