"""What must hold between the keys of a configuration, each of which is valid by itself."""

from collections.abc import Collection, Iterator
from itertools import chain
from typing import get_args

from dphrl.config.blocks.data import MATH, SQL, TOY
from dphrl.config.blocks.sampling import Plan
from dphrl.config.blocks.toy import ToyQuestions
from dphrl.config.blocks.training import DIVERGENCES, REHEARSED, MethodConfig
from dphrl.config.config import Config
from dphrl.config.errors import Problem, nearest, show

BASE, START = "base", "start"
# A key that names something: its path, the name, a word for the thing, and the names that exist.
Reference = tuple[str, str, str, Collection[str]]
# Whether a condition holds; path and value of the key to change if not, and the values that it can have.
Condition = tuple[bool, str, object, str]

# A key of a method acts only with these divergences.
_ACTS_WITH = {
    "js_scale": ("js",),
    "alpha": ("alpha",),
    "js_beta": ("js_definition",),
    "rehearse": REHEARSED,
    "rows_per_question": REHEARSED,
    "topk_estimator": REHEARSED,
    "eta": DIVERGENCES,
    "l_cap": DIVERGENCES,
}
# Other divergences have k3 only.
_ESTIMATORS = {
    "forward_kl": ("k3", "k1"),
    "js_definition": ("k3", "exact"),
    "reverse_kl": ("k3", "k2", "reward_k1", "to_go"),
}
# Losses on rollouts that each form of `off_policy` corrects, by divergence and estimator.
_CORRECTED = {
    "weight": ("reverse_kl k3", "reverse_kl k2", "js_definition k3", "js_definition exact"),
    "differentiate": ("reverse_kl k3",),
}


def problems_between_keys(config: Config) -> list[Problem]:
    """The names that do not exist; if all exist, the conditions that do not hold, which look up these names."""
    unknown = [
        Problem(path, show(name), f"{thing}: {', '.join(names)}", nearest(name, names))
        for path, name, thing, names in _references(config)
        if name not in names
    ]
    conditions = chain.from_iterable(check(config) for check in (_policies, _datasets, _sampling, _training))
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
    allowed = f"the path of a file, or a block toy (toy: {{}} has its defaults), with datasets {', '.join(questions)}"
    for name, dataset in config.datasets.items():
        in_toy = config.toy is not None and name in questions
        yield dataset.source != TOY or in_toy, f"datasets.{name}.source", TOY, allowed
    names = config.evaluate.datasets
    yield len(set(names)) == len(names), "evaluate.datasets", names, "each set once"


def _sampling(config: Config) -> Iterator[Condition]:
    plan, k, engine = config.sampling.evaluate, config.evaluate.k, config.engine
    most = max(map(plan.samples, config.evaluate.datasets))
    yield max(k) <= most, "evaluate.k", k, f"at most {most}, the samples of sampling.evaluate"
    given = config.partition.given
    yield len(given) != 1, "partition.given", given, "two files, pef and exp"
    if config.train_dataset and not given:
        least, drawn = config.partition.pef_min_correct, config.sampling.presample.n
        yield least <= drawn, "partition.pef_min_correct", least, f"at most sampling.presample.n = {drawn}"
    storing = [name for name, method in config.methods.items() if method.stores_presamples]
    allowed = f"{{}}, or rehearse pef and rows_per_question 1 in methods {', '.join(storing)}: others need pre-samples"
    yield not (given and storing), "partition.given", given, allowed
    parts, sampling = config.hardware.tensor_parallel, {engine.name_of(stage) for stage in get_args(Plan)}
    allowed = "1: only vllm can spread an engine over several GPUs"
    yield parts == 1 or sampling | {engine.name_of("rollouts")} == {"vllm"}, "hardware.tensor_parallel", parts, allowed
    allowed = "false: only vllm has it"
    yield not engine.batch_invariant or sampling == {"vllm"}, "engine.batch_invariant", True, allowed

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
        stored_too = path == "sampling.presample.max_tokens" and storing
        if path in ("sampling.refine.max_tokens", "train.max_tokens") or stored_too:
            allowed = f"at least {prompt + length} = prompts.max_tokens + {path}: one sequence"
            yield prompt + length <= budget, "hardware.token_budget", budget, allowed


def _training(config: Config) -> Iterator[Condition]:
    if not config.methods:
        return
    train, hardware = config.train, config.hardware
    yield len(set(train.seeds)) == len(train.seeds), "train.seeds", train.seeds, "each seed once"
    allowed = "null, or train.top_p 1 and train.temperature 1: pi_old and pi_sampler must be the same softmax"
    yield train.tis_cap is None or train.top_p == train.temperature == 1, "train.tis_cap", train.tis_cap, allowed
    below, divided = train.stop.coverage_below, config.partition.given
    allowed = "null: with partition.given no pre-samples show the base's coverage"
    yield below is None or not divided, "train.stop.coverage_below", below, allowed
    every = train.eval_every
    if isinstance(every, int):
        yield _divides("train.eval_every", every, "train.steps", train.steps)
        yield _divides("train.segment_steps", train.segment_steps, "train.eval_every", every)
    else:
        whole = all(step <= train.steps and step % train.segment_steps == 0 for step in every)
        allowed = f"multiples of train.segment_steps = {train.segment_steps} up to train.steps = {train.steps}"
        yield whole, "train.eval_every", list(every), allowed
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
        allowed = f"0 to train.max_tokens = {train.max_tokens}"
        yield method.overlong_buffer <= train.max_tokens, f"{path}.overlong_buffer", method.overlong_buffer, allowed
        yield from _keys_that_act(path, method)
        if topk := method.topk_estimator:
            allowed = "null, or set reference.topk_logprobs above 0"
            yield config.reference.topk_logprobs > 0, f"{path}.topk_estimator", topk, allowed
            for plan in ("refine", "presample") if method.stores_presamples else ("refine",):
                drawn = getattr(config.sampling, plan)
                allowed = (
                    f"null, or set sampling.{plan}.top_p ({drawn.top_p:g}) and temperature ({drawn.temperature:g}) to "
                    "1: it assumes that stored responses are samples of the reference's whole softmax"
                )
                yield drawn.top_p == drawn.temperature == 1, f"{path}.topk_estimator", topk, allowed


def _keys_that_act(path: str, method: MethodConfig) -> Iterator[Condition]:
    """Each key of a method changes its training: else a comparison of two methods compares nothing."""
    form = method.form or "null"
    for key, forms in _ACTS_WITH.items():
        value, default = getattr(method, key), 0.0 if key == "eta" else MethodConfig.model_fields[key].default
        allowed = f"no such key here: it has an effect only with divergence {' or '.join(forms)}"
        yield form in forms or value == default, f"{path}.{key}", value, allowed
    estimators = _ESTIMATORS.get(form, ("k3",))
    allowed = f"one of {', '.join(estimators)} for divergence {form}"
    yield method.estimator in estimators, f"{path}.estimator", method.estimator, allowed
    if method.off_policy:
        corrected = _CORRECTED[method.off_policy]
        allowed = f"null: {method.off_policy} is for {' or '.join(corrected)}"
        yield f"{form} {method.estimator}" in corrected, f"{path}.off_policy", method.off_policy, allowed
    cap = method.off_policy_cap
    yield cap is None or method.off_policy is not None, f"{path}.off_policy_cap", cap, "null, or with off_policy"


def _divides(path: str, value: int, whole_path: str, whole: int) -> Condition:
    return whole % value == 0, path, value, f"a divisor of {whole_path} = {whole}"
