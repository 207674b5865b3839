"""What must hold between the blocks of a configuration, each of which is valid by itself."""

import re
from collections.abc import Collection, Iterator
from itertools import chain
from typing import get_args

from dphrl.config.blocks.data import MATH, SQL, TOY
from dphrl.config.blocks.toy import ToyQuestions
from dphrl.config.config import Config
from dphrl.config.errors import Problem, nearest, show
from dphrl.config.scorers import MathAnswer, SqlAnswer

BASE, START = "base", "start"
# A key that names something: its path, the name, a word for the thing, and the names that exist.
Reference = tuple[str, str, str, Collection[str]]
# Whether a condition holds; path and value of the key to change if not, and the values that it can have.
Condition = tuple[bool, str, object, str]


def problems_between_blocks(config: Config) -> list[Problem]:
    """The names that do not exist; if all exist, the conditions that do not hold, which look up these names."""
    unknown = [
        Problem(path, show(name), f"{thing}: {', '.join(names)}", nearest(name, names))
        for path, name, thing, names in _references(config)
        if name not in names
    ]
    conditions = chain.from_iterable(check(config) for check in (_policies, _datasets, _claims, _sampling, _training))
    return unknown or [Problem(path, show(value), allowed) for holds, path, value, allowed in conditions if not holds]


def _references(config: Config) -> Iterator[Reference]:
    datasets = "a name under datasets", sorted(config.datasets)
    evaluated = "a name in evaluate.datasets", config.evaluate.datasets
    trained = [*config.methods, *config.checkpoints, *config.replay]
    tasks = "a task (a custom scorer needs an entry under scoring.custom)", [SQL, MATH, *config.scoring.custom]
    if config.train_dataset or config.methods:
        yield "train_dataset", config.train_dataset, *datasets
    for index, name in enumerate(config.evaluate.datasets):
        yield f"evaluate.datasets[{index}]", name, *datasets
    for policy, answers in config.replay.items():
        for name in answers:
            yield f"replay.{policy}.{name}", name, *datasets
    for name in config.evaluate.roles:
        yield f"evaluate.roles.{name}", name, *evaluated
    for name in config.sampling.evaluate.n_by_dataset:
        yield f"sampling.evaluate.n_by_dataset.{name}", name, *evaluated
    for index, endpoint in enumerate(config.evaluate.claims.primary):
        path = f"evaluate.claims.primary[{index}]"
        yield f"{path}.dataset", endpoint.dataset, *evaluated
        yield f"{path}.method", endpoint.method, "a policy but the base", trained
        yield f"{path}.against", endpoint.against, "a policy", [BASE, *trained]
    for name, dataset in config.datasets.items():
        yield f"datasets.{name}.task", dataset.task, *tasks
    for task in config.evaluate.styles:
        yield f"evaluate.styles.{task}", task, *tasks


def _policies(config: Config) -> Iterator[Condition]:
    """Each policy has a name of its own, and a model or recorded answers."""
    # Tables and figures name a method by its label: GRPO for `grpo`.
    taken = {BASE, START}
    for block in ("methods", "checkpoints", "replay"):
        for name in getattr(config, block):
            if (block, name) != ("replay", BASE):
                allowed = "any other name, apart from case: the run has a policy of this name"
                yield name.casefold() not in taken, f"{block}.{name}", name, allowed
                taken.add(name.casefold())
    for policy, answers in config.replay.items():
        lacking = [name for name in config.evaluate.datasets if name not in answers]
        allowed = f"a file for every evaluation set, also {', '.join(lacking)}"
        yield policy == BASE or not lacking, f"replay.{policy}", answers, allowed
    if config.policy.supervised:
        allowed = "null, or policy.base: its model"
        yield config.policy.base is not None, "policy.supervised", config.policy.supervised.source, allowed
    if not config.has_model:
        model = "the folder of a base model, or a block toy that trains one"
        needed = filter(None, dict.fromkeys([config.train_dataset, *config.evaluate.datasets]))
        missing = [f"replay.{BASE}.{name}" for name in needed if name not in config.replay.get(BASE, {})]
        yield not config.methods, "policy.base", None, f"{model}; to use recorded responses only, set methods: {{}}"
        yield not missing, "policy.base", None, f"{model}; or recorded responses: {', '.join(missing)}"
        allowed = "{}: the run has no base model to compare with"
        yield not config.checkpoints, "checkpoints", list(config.checkpoints), allowed


def _datasets(config: Config) -> Iterator[Condition]:
    questions = tuple(ToyQuestions.model_fields)
    answers = {SQL: get_args(SqlAnswer), MATH: get_args(MathAnswer)}
    for name, dataset in config.datasets.items():
        in_toy = config.toy is not None and name in questions
        allowed = (
            f"the path of a file, or a block toy (toy: {{}} has its defaults), with datasets {', '.join(questions)}"
        )
        yield dataset.source != TOY or in_toy, f"datasets.{name}.source", TOY, allowed
        options = (None, *answers.get(dataset.task, ()))
        allowed = f"for task {dataset.task}: {', '.join(map(show, options))}"
        yield dataset.answer in options, f"datasets.{name}.answer", dataset.answer, allowed
    for task in answers:
        path, allowed = f"scoring.custom.{task}", "any other name: that task has a scorer"
        yield task not in config.scoring.custom, path, task, allowed


def _claims(config: Config) -> Iterator[Condition]:
    """A primary endpoint is in a table of comparisons."""
    for index, endpoint in enumerate(config.evaluate.claims.primary):
        path = f"evaluate.claims.primary[{index}]"
        yield endpoint.method != endpoint.against, f"{path}.method", endpoint.method, "another policy than against"
        samples = config.sampling.evaluate.samples(endpoint.dataset)
        metrics = [f"pass@{k}" for k in config.evaluate.k if k <= samples]
        passes = re.fullmatch(r"pass@\d+", endpoint.metric)
        allowed = f"one of {', '.join(metrics)}: evaluate.k, up to the {samples} samples of {endpoint.dataset}"
        yield not passes or endpoint.metric in metrics, f"{path}.metric", endpoint.metric, allowed
        allowed = "null, or several evaluated steps: train.eval_every below train.steps"
        several = config.train.eval_every < config.train.steps
        yield endpoint.at_mean is None or several, f"{path}.at_mean", endpoint.at_mean, allowed


def _sampling(config: Config) -> Iterator[Condition]:
    plan, k, engine = config.sampling.evaluate, config.evaluate.k, config.engine
    most, fewest = (choose(config.evaluate.datasets, key=plan.samples) for choose in (max, min))
    allowed = f"each at most {plan.samples(most)}, what sampling.evaluate draws of {most}; no set has more"
    yield max(k) <= plan.samples(most), "evaluate.k", k, allowed
    allowed = f"with a k of at most {plan.samples(fewest)}, what sampling.evaluate draws of {fewest}"
    yield min(k) <= plan.samples(fewest), "evaluate.k", k, allowed
    hotter, temperature = config.evaluate.hotter, plan.temperature
    allowed = f"above sampling.evaluate.temperature = {temperature:g}"
    yield not hotter or min(hotter) > temperature, "evaluate.hotter", hotter, allowed
    if config.train_dataset and not config.partition.given:
        least, drawn = config.partition.pef_min_correct, config.sampling.presample.n
        yield least <= drawn, "partition.pef_min_correct", least, f"at most sampling.presample.n = {drawn}"
    parts, only_vllm = config.hardware.tensor_parallel, {engine.name, *engine.stages.values()} == {"vllm"}
    allowed = "1: only vllm can spread an engine over several GPUs"
    yield parts == 1 or only_vllm, "hardware.tensor_parallel", parts, allowed

    plans = ["presample", "refine", "evaluate"] if config.train_dataset else ["evaluate"]
    lengths = {f"sampling.{name}.max_tokens": getattr(config.sampling, name).max_tokens for name in plans}
    if config.methods:
        lengths["train.max_tokens"] = config.train.max_tokens
    prompt, budget = config.prompts.max_tokens, config.hardware.token_budget
    room = engine.max_model_len - prompt
    for path, length in lengths.items():
        allowed = f"at most {room} = engine.max_model_len - prompts.max_tokens"
        yield length <= room, path, length, allowed
        # The log-probs of stored and of trained responses are computed.
        if path in ("sampling.refine.max_tokens", "train.max_tokens"):
            allowed = f"at least {prompt + length} = prompts.max_tokens + {path}: one sequence"
            yield prompt + length <= budget, "hardware.token_budget", budget, allowed


def _training(config: Config) -> Iterator[Condition]:
    if not config.methods:
        return
    train, hardware, refine = config.train, config.hardware, config.sampling.refine
    yield _divides("train.eval_every", train.eval_every, "train.steps", train.steps)
    yield _divides("train.segment_steps", train.segment_steps, "train.eval_every", train.eval_every)
    yield _divides("train.mini_batches", train.mini_batches, "train.prompts_per_step", train.prompts_per_step)
    if any(method.rehearses for method in config.methods.values()):
        yield _divides("train.mini_batches", train.mini_batches, "train.rehearsal_per_step", train.rehearsal_per_step)
    prompts = train.prompts_per_step // train.mini_batches
    yield _divides("hardware.ranks", hardware.ranks, "train.prompts_per_step / train.mini_batches", prompts)
    yield _divides("hardware.tensor_parallel", hardware.tensor_parallel, "hardware.ranks", hardware.ranks)
    allowed = f"train.dtype = {train.dtype}: the trainer's weights are copied into the engine unchanged"
    yield config.engine.dtype == train.dtype, "engine.dtype", config.engine.dtype, allowed
    for name, method in config.methods.items():
        path, steps, seeds = f"methods.{name}", method.steps or 0, len(train.seeds)
        allowed = f"a multiple of train.segment_steps = {train.segment_steps}"
        yield steps % train.segment_steps == 0, f"{path}.steps", method.steps, allowed
        allowed = f"at most the number of train.seeds = {seeds}"
        yield (method.seeds or 1) <= seeds, f"{path}.seeds", method.seeds, allowed
        buffer, allowed = method.overlong_buffer, f"at most train.max_tokens = {train.max_tokens}"
        yield buffer <= train.max_tokens, f"{path}.overlong_buffer", buffer, allowed
        if topk := method.topk_estimator:
            allowed = "null, or set reference.topk_logprobs above 0"
            yield config.reference.topk_logprobs > 0, f"{path}.topk_estimator", topk, allowed
            allowed = (
                f"null, or set sampling.refine.top_p ({refine.top_p:g}) and temperature ({refine.temperature:g}) to 1: "
                "it assumes that stored responses are samples of the reference's whole softmax"
            )
            yield refine.top_p == refine.temperature == 1, f"{path}.topk_estimator", topk, allowed


def _divides(path: str, value: int, whole_path: str, whole: int) -> Condition:
    return whole % value == 0, path, value, f"a divisor of {whole_path} = {whole}"
