"""The jobs, tokens, seconds and bytes of every stage of a run."""

from dataclasses import dataclass

from dphrl.config.blocks.sampling import Plan
from dphrl.config.config import Config
from dphrl.layout.run import Layout
from dphrl.plan.memory import Setting, policy_bytes, state_bytes, training_bytes
from dphrl.plan.rates import Rates
from dphrl.plan.shape import ModelShape
from dphrl.plan.sizes import Sizes

# Bytes of a token in the tables: its id, its log-prob and its text, with the verdict on the response, compressed.
_TOKEN_BYTES = 8
_DISK = 1e9  # bytes/s at which policies and states are written and hashed


@dataclass(frozen=True)
class Stage:
    """One stage of the workflow.

    Attributes:
        jobs: number of jobs.
        gpus: GPUs (or CPU cores) that each job occupies.
        tokens: tokens that are drawn.
        trained: tokens of responses in forward and backward passes.
        seconds: of all jobs together.
        longest: seconds that the longest chain of its jobs takes, one after the other.
        size: bytes on disk.
    """

    name: str
    jobs: int
    gpus: int = 1
    tokens: float = 0.0
    trained: float = 0.0
    seconds: float = 0.0
    longest: float = 0.0
    size: float = 0.0


def stages(config: Config, shape: ModelShape, found: Sizes, rates: Rates) -> list[Stage]:
    """The stages in the order in which they start."""
    trained = _trainings(config, shape, found, rates) if config.methods else []
    return [
        _base(config, shape, rates),
        _without_model("prompts and golds", 2 * len(config.datasets) + 1, rates),
        _samples(config, "presample", found, rates),
        _samples(config, "refine", found, rates),
        _without_model("partition", 2 * len(Layout(config).draws()), rates),
        *trained,
        _samples(config, "evaluate", found, rates),
        _without_model("tables, figures and pages", 12, rates),
    ]


def prompt_share(config: Config, found: Sizes) -> float:
    """Prompt tokens that all trainings compute for each token of a response."""
    steps = [(config.steps(name), *_step(config, name, found)) for name in config.methods]
    responses = sum(count * response for count, _, response, _ in steps)
    return sum(count * prompt for count, _, _, prompt in steps) / responses if responses else 0.0


def step_seconds(config: Config, name: str, found: Sizes, rates: Rates) -> float:
    """Seconds of a step of a method: its rollouts, then its forward and backward passes."""
    drawn, responses, prompts = _step(config, name, found)
    return (drawn / rates.rollout + (responses + prompts) / rates.train) / config.hardware.ranks


def drawn_tokens(config: Config, name: Plan, dataset: str, found: Sizes) -> float:
    """Tokens that a plan draws of one policy on all prompts of a dataset."""
    plan = getattr(config.sampling, name)
    count = found.pef if name == "refine" else found.prompts[dataset]
    samples = config.sampling.evaluate.samples(dataset) if name == "evaluate" else plan.n
    return count * (samples + plan.greedy) * found.response_tokens[dataset]


def probe_tokens(config: Config, steps: int, found: Sizes) -> float:
    """Tokens that the probes of so many steps of a training draw; the first is before any update."""
    probe, dataset = config.train.probe, config.train_dataset
    subsets = (found.pef, found.prompts[dataset] - found.pef)
    prompts = sum(min(probe.prompts, size) for size in subsets)
    return (1 + steps // probe.every) * probe.samples * prompts * found.response_tokens[dataset]


def reference_tokens(config: Config, found: Sizes) -> float:
    """Tokens of the stored responses and of their prompts."""
    dataset = config.train_dataset
    return found.pef * (found.prompt_tokens[dataset] + found.response_tokens[dataset])


def wall_seconds(planned: list[Stage], slots: int) -> float:
    """Seconds from start to end on so many GPUs (or CPU cores): stages wait for those before, but for evaluation."""
    late = [stage for stage in planned if stage.name in ("training", "evaluation")]
    early = sum(_wall([stage], slots) for stage in planned if stage not in late)
    return early + _wall(late, slots)


def _wall(together: list[Stage], slots: int) -> float:
    return max([0.0, sum(one.seconds * one.gpus for one in together) / slots, *(one.longest for one in together)])


def _without_model(name: str, jobs: int, rates: Rates) -> Stage:
    return Stage(name, jobs, seconds=jobs * rates.other, longest=rates.other)


def _base(config: Config, shape: ModelShape, rates: Rates) -> Stage:
    if config.policy.base is not None or config.toy is None:
        return _without_model("base model", 1, rates)
    seconds = rates.base + 2 * rates.other
    size = 4.0 * shape.parameters
    return Stage("base model", 2, config.toy.threads, seconds=seconds, longest=seconds, size=size)


def _samples(config: Config, name: Plan, found: Sizes, rates: Rates) -> Stage:
    """Sampling and scoring of a plan, on all its datasets, with all policies for the evaluation."""
    layout, plan = Layout(config), getattr(config.sampling, name)
    # The base draws pre-samples and refinement once for each draw of stage 1.
    policies = len(layout.policies()) if name == "evaluate" else len(layout.draws())
    datasets = config.evaluate.datasets if name == "evaluate" else [config.train_dataset]
    tokens = policies * sum(drawn_tokens(config, name, dataset, found) for dataset in datasets)
    jobs = policies * len(datasets) * plan.shards
    generating, fixed = tokens / rates.sample[name], rates.start[name] + rates.other
    seconds = generating + jobs * (fixed + rates.other + (rates.other if name == "evaluate" else 0))
    return Stage(
        "evaluation" if name == "evaluate" else name,
        jobs * (3 if name == "evaluate" else 2),
        config.hardware.tensor_parallel,
        tokens,
        seconds=seconds,
        longest=seconds / jobs,
        size=tokens * _TOKEN_BYTES,
    )


def _step(config: Config, name: str, found: Sizes) -> tuple[float, float, float]:
    """Tokens of a step of a method: drawn; of the responses that it computes; of their prompts.

    The rollouts of a question share its prompt, unless prompt_sharing is off; each stored response has another one.
    """
    train, method, dataset = config.train, config.methods[name], config.train_dataset
    stored = train.rehearsal_per_step if method.rehearses else 0
    rollouts, length = train.prompts_per_step * train.rollouts_per_prompt, found.response_tokens[dataset]
    # A prompt that dynamic sampling replaces costs its responses once more.
    drawn = rollouts * (1 + found.share_of_rounds * method.dynamic_sampling_rounds) * length
    asked = rollouts if config.hardware.prompt_sharing == "off" else train.prompts_per_step
    prompts = train.ppo_epochs * (asked + stored) * found.prompt_tokens[dataset]
    return drawn, train.ppo_epochs * (rollouts + stored) * length, prompts


def _trainings(config: Config, shape: ModelShape, found: Sizes, rates: Rates) -> list[Stage]:
    """The reference log-probs and all segments of all trainings."""
    train, dataset = config.train, config.train_dataset
    drawn = trained = size = written = seconds = 0.0
    for name in config.methods:
        seeds = len(config.seeds(name))
        each = seeds * config.steps(name)
        of_step, computed, _ = _step(config, name, found)
        probes = seeds * probe_tokens(config, config.steps(name), found)
        drawn += each * of_step + probes
        trained += each * computed
        seconds += each * step_seconds(config, name, found, rates) + probes / rates.rollout / config.hardware.ranks
        setting = Setting.of(config, name, shape)
        written += each // train.segment_steps * (state_bytes(shape, setting) + policy_bytes(shape, setting))
        size += seeds * training_bytes(shape, setting, train, config.steps(name))
    layout = Layout(config)
    jobs, draws = len(layout.segments()), len(layout.draws())
    seconds += jobs * (rates.train_start + rates.other) + written / _DISK
    stored, ranks = reference_tokens(config, found), config.hardware.reference_ranks
    alone = rates.train_start + rates.other + stored / (rates.forward * ranks)
    size_of_stored = draws * found.pef * found.response_tokens[dataset] * 4
    whole = {"trained": draws * stored, "seconds": draws * alone, "longest": alone, "size": size_of_stored}
    logprobs = Stage("reference", draws, ranks, **whole)
    steps = [config.steps(name) for name in config.methods for _ in config.seeds(name)]
    chain = seconds * max(steps) / sum(steps)
    return [logprobs, Stage("training", jobs, config.hardware.ranks, drawn, trained, seconds, chain, size)]
