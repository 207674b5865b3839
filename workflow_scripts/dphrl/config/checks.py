"""Checks between the blocks of a configuration, and the notices printed at the start of a run."""

import re
from collections.abc import Collection, Iterator
from heapq import nsmallest
from math import isqrt
from operator import attrgetter
from typing import get_args

from dphrl.config.blocks.data import MATH, SQL, TOY
from dphrl.config.blocks.evaluation import EndpointConfig
from dphrl.config.blocks.toy import ToyQuestions
from dphrl.config.config import Config
from dphrl.config.errors import Problem, nearest, show
from dphrl.config.scorers import MathAnswer, SqlAnswer
from dphrl.hub import PREFIX

BASE, START = "base", "start"
TOY_DATASETS = tuple(ToyQuestions.model_fields)
# Names that no dataset can have, and why.
_TAKEN = {
    "overlap": "gold/overlap.parquet is another table",
    "average": "the paper's tables have a column of averages",
}
STRENGTHS = (
    "Weight of each divergence (the policy loss has 1), and strength: how strongly it holds the policy near the base. "
    "Equal strengths compare divergences near the base; further away their shares of the gradient do (docs/method.md)."
)


def problems_between_blocks(config: Config) -> list[Problem]:
    """Contradictions between blocks that are valid by themselves."""
    names = [*_names(config)]
    # With a wrong name of a dataset or a policy, a message about its missing answers would mislead.
    answers = [] if names else _answers(config)
    return [*names, *_sources(config), *answers, *_counts(config), *_hotter(config), *_lengths(config)]


def notices(config: Config) -> Iterator[str]:
    """Effective weights of the divergences, and caveats for a reader of the results."""
    train = config.train
    yield from strengths(config)
    if config.methods and train.top_p < 1:
        yield (
            f"train.top_p is {train.top_p:g}: rollouts are drawn from the truncated policy, but pi_old is the full "
            "softmax, so their supports differ"
        )
    if fixed := fixed_draw(config):
        yield fixed
    yield from trained_on(config)


def fixed_draw(config: Config) -> str | None:
    """The caveat that trainings of several seeds share their pre-samples, so that intervals miss this chance."""
    shared = config.replays_training_set or config.train.draws == "shared"
    several = [name for name, method in config.methods.items() if method.needs_draw and len(config.seeds(name)) > 1]
    if not (shared and several):
        return None
    reason = "the pre-samples are recorded answers" if config.replays_training_set else "train.draws is shared"
    return f"{reason}: all training seeds share one draw of stage 1, and intervals hold for these pre-samples only"


def supervised_before(config: Config) -> str | None:
    """The caveat that the base policy is no model that others have."""
    if (start := config.policy.supervised) is None:
        return None
    return f"the base had a supervised start: {config.policy.base} after {start.steps} updates on {start.source}"


def trained_on(config: Config) -> Iterator[str]:
    """The caveat that evaluation sets are the training set, by name or by file, of a run that trains."""
    if not config.methods:
        return
    train = config.datasets[config.train_dataset]
    seen = [
        name
        for name in config.evaluate.datasets
        if name == config.train_dataset or (config.datasets[name].source == train.source != TOY)
    ]
    if seen:
        yield (
            f"evaluate.datasets has the training questions ({', '.join(seen)}): results on them say nothing about "
            "other questions"
        )


def strengths(config: Config) -> Iterator[str]:
    """A definition of weight and strength, then a line for each method with a divergence; no line without any.

    Scale the loss so that the policy term has weight 1. The mean of the divergence over tokens then has weight w. Near
    the reference it acts as w f''(1) / 2 * l^2, so w f''(1) is the strength by which methods can be compared.
    """
    train = config.train
    rollouts = train.prompts_per_step * train.rollouts_per_prompt
    with_divergence = {name: method for name, method in config.methods.items() if method.divergence is not None}
    if with_divergence:
        yield STRENGTHS
    for name, method in with_divergence.items():
        weight, unit, reason = method.eta, "", f"eta {method.eta:g}"
        if method.rehearses:
            reason += f", rehearsal_norm {train.rehearsal_norm}"
            if train.rehearsal_norm != "separate":
                weight *= train.rehearsal_per_step / rollouts
                reason += f", {train.rehearsal_per_step} stored responses to {rollouts} rollouts"
            if train.rehearsal_norm == "tokens":
                unit = " x (mean length of stored responses / of rollouts)"
        term = "rehearsal" if method.rehearses else "divergence on rollouts"
        if method.divergence == "js_definition" and method.js_beta == "auto":
            term = "each half of the divergence"
        curvature = method.curvature
        strength = f"f''(1) times it, for {method.divergence}" if curvature is None else f"{weight * curvature:g}{unit}"
        yield f"{name}: {term} weighs {weight:g}{unit} of the policy loss ({reason}); strength {strength}"
        if method.js_beta != "auto" and curvature is not None:
            half = method.eta * method.js_beta
            yield (
                f"{name}: divergence on rollouts weighs {half:g} of the policy loss (eta {method.eta:g}, js_beta "
                f"{method.js_beta:g}); strength {half * curvature:g}"
            )


def _unknown(path: str, name: str, known: Collection[str], where: str) -> Iterator[Problem]:
    if name not in known:
        yield Problem(path, show(name), f"a name {where}: {', '.join(known)}", nearest(name, known))


def _names(config: Config) -> Iterator[Problem]:
    named = {f"evaluate.datasets[{index}]": name for index, name in enumerate(config.evaluate.datasets)}
    named |= {f"replay.{policy}.{name}": name for policy, recorded in config.replay.items() for name in recorded}
    if config.train_dataset or config.methods:
        named["train_dataset"] = config.train_dataset
    for path, name in named.items():
        yield from _unknown(path, name, sorted(config.datasets), "under datasets")
    measured = {f"evaluate.roles.{name}": name for name in config.evaluate.roles}
    for index, endpoint in enumerate(config.evaluate.claims.primary):
        measured[f"evaluate.claims.primary[{index}].dataset"] = endpoint.dataset
    for path, name in measured.items():
        yield from _unknown(path, name, config.evaluate.datasets, "in evaluate.datasets")
    blocks = ("methods", "replay", "checkpoints")
    policies = {BASE: BASE} | {name: f"{block}.{name}" for block in blocks for name in getattr(config, block)}
    for index, endpoint in enumerate(config.evaluate.claims.primary):
        for key in ("method", "against"):
            path = f"evaluate.claims.primary[{index}].{key}"
            yield from _unknown(path, getattr(endpoint, key), policies, "of a policy")
        yield from _not_measured(config, f"evaluate.claims.primary[{index}]", endpoint)
        if endpoint.at_mean is not None and config.train.eval_every >= config.train.steps:
            allowed = "null, or several evaluated steps: train.eval_every below train.steps"
            yield Problem(f"evaluate.claims.primary[{index}].at_mean", show(endpoint.at_mean), allowed)
    for name in filter(config.datasets.__contains__, _TAKEN):
        yield Problem(f"datasets.{name}", show(name), f"any other name: {_TAKEN[name]}")
    # Tables and figures name a method by its label, `grpo` as GRPO; some file systems do not tell names by case.
    for paths in ({name: f"datasets.{name}" for name in config.datasets}, policies):
        first = dict[str, str]()
        for name, path in paths.items():
            if (other := first.setdefault(name.casefold(), name)) != name:
                yield Problem(path, show(name), f"a name that differs from {other} by more than case")
    tasks = [SQL, MATH, *config.scoring.custom]
    asked = {f"datasets.{name}.task": dataset.task for name, dataset in config.datasets.items()}
    for path, task in [*asked.items(), *((f"evaluate.styles.{task}", task) for task in config.evaluate.styles)]:
        if task not in tasks:
            allowed = f"a task: {', '.join(tasks)} (a custom scorer needs an entry under scoring.custom)"
            yield Problem(path, show(task), allowed, nearest(task, tasks))
    for task in {SQL, MATH} & config.scoring.custom.keys():
        yield Problem(f"scoring.custom.{task}", show(task), "any other name: that task has a scorer")
    for name, policy in {BASE: "the policy before training", START: "the base before its supervised start"}.items():
        if name in config.methods:
            yield Problem(f"methods.{name}", show(name), f"any other name: {name} is {policy}")
    for name in config.methods.keys() & config.replay.keys():
        yield Problem(f"replay.{name}", show(name), "any other name: methods has a policy of this name")
    if config.checkpoints and not config.has_model:
        yield Problem("checkpoints", show(list(config.checkpoints)), "{}: the run has no base model to compare with")
    if config.policy.supervised and config.policy.base is None:
        yield Problem("policy.supervised", show(config.policy.supervised.source), "null, or policy.base: its model")
    for name in config.checkpoints.keys() & {BASE, START, *config.methods, *config.replay}:
        yield Problem(f"checkpoints.{name}", show(name), "any other name: the run has another policy of this name")


def _not_measured(config: Config, path: str, endpoint: EndpointConfig) -> Iterator[Problem]:
    """Endpoints that no table of comparisons will have."""
    if endpoint.method in (BASE, endpoint.against):
        yield Problem(f"{path}.method", show(endpoint.method), "another policy than the base and than against")
    passed = re.fullmatch(r"pass@(\d+)", endpoint.metric)
    if passed is None or endpoint.dataset not in config.evaluate.datasets:
        return
    k, most = int(passed[1]), config.sampling.evaluate.samples(endpoint.dataset)
    # Where 8 is not in evaluate.k, pass@8 means the largest k below it.
    estimated = [number for number in config.evaluate.k if number <= most]
    if k > most or (endpoint.at_mean is None and k not in (*estimated, 8)):
        allowed = f"pass@k with one of evaluate.k up to the {most} samples of {endpoint.dataset}: {estimated}"
        yield Problem(f"{path}.metric", show(endpoint.metric), allowed)


def _sources(config: Config) -> Iterator[Problem]:
    for name, dataset in config.datasets.items():
        if dataset.source == TOY and name not in TOY_DATASETS:
            allowed = f"the path of a file; the toy has the datasets {', '.join(TOY_DATASETS)}"
            yield Problem(f"datasets.{name}.source", show(TOY), allowed, nearest(name, TOY_DATASETS))
        if dataset.task == SQL and dataset.source.startswith(PREFIX) and not dataset.databases:
            yield Problem(f"datasets.{name}.databases", "null", "the folder of the databases: the hub brings one file")
        for key in ("databases", "comparison"):
            if dataset.task != SQL and getattr(dataset, key) is not None:
                allowed = f"no such key here: it has an effect only for task {SQL}"
                yield Problem(f"datasets.{name}.{key}", show(getattr(dataset, key)), allowed)
        answers = {SQL: get_args(SqlAnswer), MATH: get_args(MathAnswer)}.get(dataset.task, ())
        if dataset.answer and dataset.answer not in answers:
            one_of = f"one of {', '.join(answers)} for task {dataset.task}"
            allowed = one_of if answers else "no such key for a custom task"
            yield Problem(f"datasets.{name}.answer", show(dataset.answer), allowed)
        if dataset.source == TOY and config.toy is None:
            allowed = "the path of a file, or a block toy (toy: {} has its defaults)"
            yield Problem(f"datasets.{name}.source", show(TOY), allowed)


def _answers(config: Config) -> Iterator[Problem]:
    """Policies without a model and without recorded responses."""
    for policy in config.replay.keys() - config.methods.keys() - {BASE}:
        lacking = [name for name in config.evaluate.datasets if name not in config.replay[policy]]
        if lacking:
            allowed = f"a file for every evaluation set, also {', '.join(lacking)}"
            yield Problem(f"replay.{policy}", show(config.replay[policy]), allowed)
    if config.has_model:
        return
    allowed = "the folder of a base model, or a block toy that trains one"
    if config.methods:
        yield Problem("policy.base", "null", f"{allowed}; to use recorded responses only, set methods: {{}}")
        return
    for name in dict.fromkeys([config.train_dataset, *config.evaluate.datasets]):
        if name and name not in config.replay.get(BASE, {}):
            yield Problem("policy.base", "null", f"{allowed}; or recorded responses: replay.{BASE}.{name}")


def _divides(config: Config, path: str, wholes: str) -> Iterator[Problem]:
    """The value at `path` must divide `wholes`: the path of a number, or "a / b" for a quotient of two."""
    value, whole, *parts = attrgetter(path, *wholes.split(" / "))(config)
    for part in parts:
        whole //= part
    if whole % value:
        # Not all divisors of a number beyond 10^10: the message needs four.
        small = [n for n in range(1, min(isqrt(whole), 100_000) + 1) if whole % n == 0]
        close = sorted(nsmallest(4, {*small, *(whole // n for n in small)}, key=lambda n: abs(n - value)))
        allowed = f"a divisor of {wholes} = {whole}, for instance {', '.join(map(str, close))}"
        yield Problem(path, show(value), allowed)


def _at_most(path: str, value: int, limit_path: str, limit: int) -> Iterator[Problem]:
    if value > limit:
        yield Problem(path, show(value), f"at most {limit_path} = {limit}")


def _counts(config: Config) -> Iterator[Problem]:
    if config.methods:
        yield from _divides(config, "train.eval_every", "train.steps")
        yield from _divides(config, "train.segment_steps", "train.eval_every")
        yield from _divides(config, "train.mini_batches", "train.prompts_per_step")
        yield from _divides(config, "hardware.ranks", "train.prompts_per_step / train.mini_batches")
    if any(method.rehearses for method in config.methods.values()):
        yield from _divides(config, "train.mini_batches", "train.rehearsal_per_step")
    parts = config.hardware.tensor_parallel
    if parts > 1 and {config.engine.name, *config.engine.stages.values()} != {"vllm"}:
        yield Problem("hardware.tensor_parallel", show(parts), "1: only vllm can spread an engine over several GPUs")
    if config.methods:
        yield from _divides(config, "hardware.tensor_parallel", "hardware.ranks")
    for name, method in config.methods.items():
        if method.steps and method.steps % config.train.segment_steps:
            allowed = f"a multiple of train.segment_steps = {config.train.segment_steps}"
            yield Problem(f"methods.{name}.steps", show(method.steps), allowed)
        path, most = f"methods.{name}.seeds", len(config.train.seeds)
        yield from _at_most(path, method.seeds or 1, "the number of train.seeds", most)
        if method.topk_estimator and not config.reference.topk_logprobs:
            allowed = "null, or set reference.topk_logprobs above 0"
            yield Problem(f"methods.{name}.topk_estimator", show(method.topk_estimator), allowed)
        stored = config.sampling.refine
        if method.topk_estimator and (stored.top_p < 1 or stored.temperature != 1):
            allowed = (
                f"null, or set sampling.refine.top_p ({stored.top_p:g}) and temperature ({stored.temperature:g}) to 1: "
                "it assumes that stored responses are samples of the reference's whole softmax"
            )
            yield Problem(f"methods.{name}.topk_estimator", show(method.topk_estimator), allowed)
        longest = config.train.max_tokens
        yield from _at_most(f"methods.{name}.overlong_buffer", method.overlong_buffer, "train.max_tokens", longest)
    least, drawn = config.partition.pef_min_correct, config.sampling.presample.n
    if config.train_dataset and not config.partition.given:
        yield from _at_most("partition.pef_min_correct", least, "sampling.presample.n", drawn)
    yield from _samples(config)


def _samples(config: Config) -> Iterator[Problem]:
    """Every k needs an evaluation set with k samples or more, and every evaluation set needs a k up to its samples."""
    plan, k, names = config.sampling.evaluate, config.evaluate.k, config.evaluate.datasets
    for name in plan.n_by_dataset:
        yield from _unknown(f"sampling.evaluate.n_by_dataset.{name}", name, names, "in evaluate.datasets")
    drawn = {name: plan.samples(name) for name in names}
    most, fewest = (choose(drawn, key=drawn.__getitem__) for choose in (max, min))
    if max(k) > drawn[most]:
        allowed = f"each at most {drawn[most]}, what sampling.evaluate draws of {most}; no set has more"
        yield Problem("evaluate.k", show(k), allowed)
    if min(k) > drawn[fewest]:
        allowed = f"with a k of at most {drawn[fewest]}, what sampling.evaluate draws of {fewest}"
        yield Problem("evaluate.k", show(k), allowed)


def _hotter(config: Config) -> Iterator[Problem]:
    """Temperatures above the one of the evaluation, and a policy that is drawn at them."""
    chosen, temperature = config.evaluate.hotter, config.sampling.evaluate.temperature
    if chosen and min(chosen) <= temperature:
        yield Problem("evaluate.hotter", show(chosen), f"above sampling.evaluate.temperature = {temperature:g}")
    if chosen and not (config.methods or config.checkpoints):
        allowed = "[]: the run has no policy but the base and recorded answers"
        yield Problem("evaluate.hotter", show(chosen), allowed)


def _lengths(config: Config) -> Iterator[Problem]:
    prompt, model = config.prompts.max_tokens, config.engine.max_model_len
    plans = type(config.sampling).model_fields if config.train_dataset else ["evaluate"]
    blocks = [f"sampling.{plan}" for plan in plans] + ["train"] * bool(config.methods)
    lengths = {f"{block}.max_tokens": attrgetter(f"{block}.max_tokens")(config) for block in blocks}
    for path, length in lengths.items():
        if length > model - prompt:
            allowed = f"at most {model - prompt} = engine.max_model_len - prompts.max_tokens"
            if model <= prompt:
                allowed = f"engine.max_model_len ({model}) leaves no room after prompts.max_tokens"
            yield Problem(path, show(length), allowed)
    # Responses whose log-probs are computed: those stored and those trained on.
    responses = lengths.keys() & {"sampling.refine.max_tokens", "train.max_tokens"}
    response = max(sorted(responses), key=lengths.__getitem__, default="")
    budget, longest = config.hardware.token_budget, prompt + lengths.get(response, 0)
    if response and budget < longest:
        allowed = f"at least {longest} = prompts.max_tokens + {response}: one sequence"
        yield Problem("hardware.token_budget", show(budget), allowed)
    if config.methods and config.engine.dtype != config.train.dtype:
        allowed = f"train.dtype = {config.train.dtype}: the trainer's weights are copied into the engine unchanged"
        yield Problem("engine.dtype", show(config.engine.dtype), allowed)
