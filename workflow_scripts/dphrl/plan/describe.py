"""The plan of a configuration as text, and the jobs that cannot fit on its GPUs."""

import math
import time
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tabulate import tabulate

from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem, show
from dphrl.config.load import read_config
from dphrl.config.notices import strengths
from dphrl.hub import model_config, model_name
from dphrl.layout.run import Layout
from dphrl.machine.progress import counted, duration
from dphrl.plan.memory import (
    GB,
    ModelShape,
    Phase,
    Setting,
    activations,
    changes_that_fit,
    host_bytes,
    phases,
    policy_bytes,
    reference_phase,
    sampling_phase,
    state_bytes,
    training_bytes,
)
from dphrl.plan.work import (
    ASSUMED_PROMPTS,
    PLANS,
    Rates,
    Sizes,
    Stage,
    drawn_datasets,
    prompt_share,
    sizes_of,
    stages,
    step_seconds,
    wall_seconds,
)

# The key of the configuration for each field of a setting.
KEYS = {
    "zero_stage": "hardware.zero_stage",
    "checkpointing": "hardware.gradient_checkpointing",
    "ranks": "hardware.ranks",
    "kv_cache_gib": "hardware.kv_cache_gib",
    "offload": "hardware.offload_optimizer",
    "tensor_parallel": "hardware.tensor_parallel",
}
_KEPT = {"newest": "newest removes older ones", "all": "all stay"}


def shape_of(config: Config, folder: Path, *, online: bool = False) -> ModelShape | None:
    """The shape of the base model, from its config.json or the block `toy`; None for recorded answers.

    Args:
        online: whether the config.json of a name of the hub may be fetched; else it must be in the cache.

    Raises `ValueError` as `ModelShape.from_config` does, and `ConfigError` without a config.json.
    """
    if config.policy.base is not None:
        settings = model_config(config.policy.base, folder, online=online)
        if settings is None and model_name(config.policy.base, folder):
            raise ValueError(f"config.json of {config.policy.base} is not in the cache (`dphrl plan` fetches it)")
        if settings is None:
            place = f"{config.policy.base}, in which there is no config.json"
            need = "a folder with the model's config.json; a plan reads this alone, so copy it without the weights"
            raise ConfigError([Problem("policy.base", place, need)])
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


def check_memory(config: Config, shape: ModelShape, gpu_gib: float) -> None:
    """Raises a `ConfigError` with each training and each other job that does not fit, and the keys to change."""
    limit, problems = gpu_gib * 2**30, []
    for names, setting in _settings(config, shape).items():
        worst = max(phases(shape, setting), key=lambda phase: phase.total)
        changes = changes_that_fit(shape, setting, limit) if worst.total > limit else {}
        advice = "a larger GPU: no combination of these keys fits"
        if changes:
            advice = ", ".join(f"{KEYS[name]}: {show(value)}" for name, value in changes.items())
        problems += _too_large(f"methods {names}", worst, limit, advice)
    # The reference needs less than the trainings that read it.
    advice = "a higher hardware.tensor_parallel, or a lower hardware.sampling_kv_cache_gib"
    if any(drawn_datasets(config, plan) for plan in PLANS):
        problems += _too_large("sampling", sampling_phase(shape, Setting.of(config, None, shape)), limit, advice)
    if start := config.policy.supervised:
        # In float32 on one GPU: weights, gradients and two moments.
        batch = Setting(token_budget=start.token_budget, dtype=start.dtype)
        parts = {"weights, gradients and moments": 16.0 * shape.parameters, **activations(shape, batch)}
        advice = "the folder of a model that had its start elsewhere, under policy.base"
        problems += _too_large("policy.supervised", Phase("training it", parts), limit, advice)
    if problems:
        raise ConfigError(problems)


def memory_of(size: float) -> str:
    """Bytes of a GPU in GB, the unit of the plan, and in GiB, the unit of data sheets."""
    return f"{size / GB:.0f} GB ({size / 2**30:g} GiB)"


def _too_large(job: str, phase: Phase, limit: float, advice: str) -> list[Problem]:
    """The problem of a job with a phase that needs more than `limit` bytes; none if it needs less."""
    if phase.total <= limit:
        return []
    parts = ", ".join(f"{name} {size / GB:.0f}" for name, size in phase.parts.items() if size > GB)
    need = f"{phase.total / GB:.0f} GB per GPU while {phase.name} ({parts})"
    return [Problem(job, need, f"at most {memory_of(limit)}; for that: {advice}")]


def print_plan(files: Sequence[Path], gpu_gib: float | None, slots: int | None) -> int:
    """Print the plan of a configuration; the exit status is 1 if a job does not fit. None means the default."""
    if any(number is not None and number <= 0 for number in (slots, gpu_gib)):
        raise ValueError("--slots and --gpu-gib: expected more than 0")
    config, folder = read_config(*files), Path.cwd()
    gpu_gib = gpu_gib or config.gpu_gib
    largest = max(config.hardware.ranks, config.hardware.tensor_parallel)
    slots = slots or max(2, largest)
    print(describe(config, folder, "GPU" if gpu_gib else "core", slots))  # fetches a config.json of the hub
    shape = shape_of(config, folder)
    if not (gpu_gib and shape):
        return 0
    try:
        check_memory(config, shape, gpu_gib)
    except ConfigError as error:
        print(f"\nThis does not fit.\n{error}")
        return 1
    if slots < largest:
        print(f"\nThis does not fit.\nhardware: a job takes {largest} GPUs at one time, and --slots has {slots}")
        return 1
    print(f"\nEverything fits on GPUs of {memory_of(gpu_gib * 2**30)}.")
    return 0


def describe(config: Config, folder: Path, unit: str, slots: int) -> str:
    """Memory, disk, jobs, tokens, operations, hours and the strength of each divergence as text.

    Args:
        folder: of the run's files and datasets.
        unit: GPU or core.
        slots: GPUs, or CPU cores, that work at the same time.
    """
    shape = shape_of(config, folder, online=True)
    if shape is None:
        return "A run of recorded answers: it needs no model, and seconds for each thousand answers."
    sizes = sizes_of(config, folder)
    speed = product_speed(config.train.dtype, "cuda" if unit == "GPU" else "cpu")
    products = Rates.of_products(speed, config, shape)
    rates = products.measured(folder / "results" / config.run, prompt_share(config, sizes), config.hardware.ranks)
    planned = stages(config, shape, sizes, rates)
    count = shape.parameters
    parameters = f"{count / 1e9:.3g} billion" if count >= 1e8 else f"{count / 1e6:.2g} million"
    lines = [f"{config.run}: a model of {parameters} parameters"]
    if sizes.absent:
        lines += [f"Not there, so {ASSUMED_PROMPTS:,} questions are assumed in each: {', '.join(sizes.absent)}"]
    if unit == "GPU" and config.methods:
        lines += ["", "Memory per GPU in GB, planned", _memory_table(config, shape)]
    source = f"at the speed of a matrix product, {speed / 1e9:,.0f} GFLOP/s of one {unit} measured now"
    if math.isnan(speed):
        source = (
            "not planned, since this machine has no GPU with torch" if unit == "GPU" else "not planned without torch"
        )
    done = "" if rates is products else ", measured where a stage of this run is done"
    lines += ["", f"Work (minutes: {source}{done})", _work_table(planned)]
    lines += ["", *_lengths(config, sizes), *_steps(config, sizes, rates)]
    settings = _settings(config, shape).values()
    segment = max((state_bytes(shape, setting) + policy_bytes(shape, setting) for setting in settings), default=0)
    disk = sum(stage.size for stage in planned)
    train = config.train
    kept = f"train.keep_state: {_KEPT[train.keep_state]}"
    lines += ["", f"Disk: {_disk(disk)} in all, {_disk(segment)} for each segment (policy and state; {kept})"]
    one_more = config.model_copy(
        update={"train": train.model_copy(update={"seeds": [*train.seeds, max(train.seeds) + 1]})}
    )
    of_one = Rates.of_products(1.0, config, shape)
    operations, with_one_more = (_seconds(stages(one, shape, sizes, of_one)) for one in (config, one_more))
    lines.append(
        f"Operations of the model's products: {_power(operations)} in all"
        + (f", of which {_power(with_one_more - operations)} for each training seed" if config.methods else "")
    )
    seconds = _seconds(planned)
    if math.isnan(seconds):
        lines.append(
            f"Time: on a {unit} with torch this command measures a product; a job takes longer than its products"
        )
    else:
        of_seed = _seconds(stages(one_more, shape, sizes, rates)) - seconds
        lines.append(
            f"Time: at least {duration(wall_seconds(planned, slots))} on {slots} {unit}s, {_rounded(seconds / 3600)} "
            f"{unit} hours in all"
            + (f", of which {_rounded(of_seed / 3600)} for each training seed" if config.methods else "")
        )
    lines += slow_products(config)
    if divergences := [*strengths(config)]:
        lines += ["", *divergences]
    return "\n".join(lines)


def _lengths(config: Config, sizes: Sizes) -> Iterator[str]:
    """Mean lengths of prompts and responses, each with its source."""
    yield "Mean tokens of a prompt and of a response:"
    for name in config.datasets:
        source = "as drawn" if name in sizes.measured else f"assumed for task {config.datasets[name].task}"
        yield f"  {name}: {sizes.prompt_tokens[name]:,.0f} and {sizes.response_tokens[name]:,.0f} ({source})"
    if set(config.datasets) - sizes.measured:
        yield (
            "  Assumed lengths are at most prompts.max_tokens and half of sampling.*.max_tokens. Once the pre-samples "
            "are drawn (target presample), a plan uses the measured lengths of the training set, and after the run "
            "the lengths of all sets."
        )


def _steps(config: Config, sizes: Sizes, rates: Rates) -> Iterator[str]:
    """Seeds and steps of each method, with the time of a step."""
    train = config.train
    if config.methods:
        draws = len(Layout(config).draws())
        yield f"Pre-samples, refinement, stored responses: {counted(draws, 'draw')} (train.draws: {train.draws})"
        yield "Trainings (train.seeds, train.steps); a step is generation and training, without start and checkpoints:"
    for name, method in config.methods.items():
        stored = f", {train.rehearsal_per_step} stored responses" if method.rehearses else ""
        seconds = step_seconds(config, name, sizes, rates)
        length = "" if math.isnan(seconds) else f" of {seconds:,.0f} s" if seconds >= 10 else f" of {seconds:.1f} s"
        yield (
            f"  {name}: {counted(len(config.seeds(name)), 'seed')}, {config.steps(name)} steps{length} "
            f"({train.prompts_per_step} questions x {train.rollouts_per_prompt} rollouts{stored})"
        )


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
    """A line for a user whose run computes in bfloat16 on a processor that emulates it."""
    keys = {"engine.dtype": config.engine.dtype, "train.dtype": config.train.dtype if config.methods else ""}
    if start := config.policy.supervised:
        keys["policy.supervised.dtype"] = start.dtype
    slow = [key for key, dtype in keys.items() if dtype == "bfloat16"]
    if not slow or config.gpu_gib is not None or config.policy.base is None:
        return
    single, half = (product_speed(dtype, "cpu") / 1e9 for dtype in ("float32", "bfloat16"))
    if half < single:
        yield (
            f"{', '.join(slow)}: this processor emulates bfloat16, at {half:,.0f} GFLOP/s of a core; float32 has "
            f"{single:,.0f}, so set float32"
        )


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
    if gpu_gib := config.gpu_gib:
        check_memory(config, shape, gpu_gib)
    if not config.methods:
        return
    if gpu_gib:
        yield f"Memory per GPU in GB, planned:\n{_memory_table(config, shape)}"
    settings = {name: Setting.of(config, name, shape) for name in config.methods}
    disk = sum(
        len(config.seeds(name)) * training_bytes(shape, setting, config.train, config.steps(name))
        for name, setting in settings.items()
    )
    trainings = counted(config.trainings, "training")
    yield (
        f"disk: at most {_disk(disk)} for the policies and optimizer states of {trainings} "
        f"(train.keep_state: {config.train.keep_state})"
    )


def _settings(config: Config, shape: ModelShape) -> dict[str, Setting]:
    """The different settings of the methods; a key names all methods with one setting."""
    by_setting: dict[Setting, list[str]] = {}
    for name in config.methods:
        by_setting.setdefault(Setting.of(config, name, shape), []).append(name)
    return {", ".join(names): setting for setting, names in by_setting.items()}


def _memory_table(config: Config, shape: ModelShape) -> str:
    rows = []
    for names, setting in _settings(config, shape).items():
        jobs = [sampling_phase(shape, setting), reference_phase(shape, setting), *phases(shape, setting)]
        host = {"host memory per rank": host_bytes(shape, setting) / GB}
        rows.append({"methods": names, **{phase.name: phase.total / GB for phase in jobs}, **host})
    return tabulate(rows, headers="keys", floatfmt=".1f")


def _seconds(planned: list[Stage]) -> float:
    """Seconds of all GPUs, or CPU cores, together."""
    return sum(stage.seconds * stage.gpus for stage in planned)


def _power(value: float) -> str:
    """Two digits and a power of ten."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits} x 10^{int(exponent)}"


def _rounded(hours: float) -> str:
    """Two digits, or whole tens."""
    return f"{hours:.2g}" if hours < 100 else f"{round(hours, -1):,.0f}"


def _disk(size: float) -> str:
    return f"{size / GB:,.0f} GB" if size >= 10 * GB else f"{size / 1e6:,.0f} MB"


def _work_table(planned: list[Stage]) -> str:
    unit, size = ("GB", GB) if sum(stage.size for stage in planned) >= 100 * GB else ("MB", 1e6)
    rows = [
        (
            *(stage.name, stage.jobs, stage.gpus, stage.tokens, stage.trained),
            *(None if math.isnan(stage.seconds) else stage.seconds / 60, stage.size / size),
        )
        for stage in planned
    ]
    head = ("stage", "jobs", "cores or GPUs each", "tokens drawn", "tokens trained", "minutes of all jobs", unit)
    return tabulate(rows, head, floatfmt=("", "", "", ",.0f", ",.0f", ",.1f", ",.1f"), missingval="-")
