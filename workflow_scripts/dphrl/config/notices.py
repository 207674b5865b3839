"""What a reader of results must know about a configuration: printed at the start of a run, and noted on its page."""

from collections.abc import Iterator

from dphrl.config.blocks.data import TOY
from dphrl.config.blocks.training import OWN, MethodConfig, TrainConfig
from dphrl.config.config import Config


def notices(config: Config) -> Iterator[str]:
    """The lines at the start of a run: weight and strength of each divergence, and all caveats."""
    for name, method in config.methods.items():
        yield from (f"{name}: {line}" for line in strengths(method, config.train))
    if config.train.stop.coverage_below is not None:
        yield "train.stop can end a training early: it takes at most the planned steps, tokens and hours"
    if config.gpu_gib is None and config.policy.base and "bfloat16" in (config.engine.dtype, config.train.dtype):
        # An EPYC of 2021 is 60 times slower in it than in float32.
        yield "engine.dtype, train.dtype: set float32 if this processor has no bfloat16, which it then emulates slowly"
    yield from caveats(config)


def caveats(config: Config) -> Iterator[str]:
    """The caveats on the page: a supervised start, seeds that share their pre-samples, known evaluation questions."""
    if (start := config.policy.supervised) is not None:
        yield f"the base had a supervised start: {config.policy.base} after {start.steps} updates on {start.source}"
    shared = config.replays_training_set or config.train.draws == "shared"
    if shared and any(method.needs_draw and len(config.seeds(name)) > 1 for name, method in config.methods.items()):
        reason = "the pre-samples are recorded answers" if config.replays_training_set else "train.draws is shared"
        yield f"{reason}: all training seeds share one draw of stage 1, and intervals hold for these pre-samples only"
    trained = config.datasets[config.train_dataset].source if config.methods else TOY
    names = [name for name in config.evaluate.datasets if config.datasets[name].source == trained != TOY]
    if config.methods and config.train_dataset in config.evaluate.datasets:
        names = [config.train_dataset, *names]
    if names:
        yield (
            f"evaluate.datasets has the training questions ({', '.join(dict.fromkeys(names))}): results on them say "
            "nothing about other questions"
        )


def strengths(method: MethodConfig, train: TrainConfig) -> Iterator[str]:
    """Weight and strength of the divergence of a method: on stored responses, on rollouts, or on both.

    Scale the loss so that the policy term has weight 1. The mean of the divergence over tokens then has weight w. Near
    the reference it acts as w f''(1) / 2 * l^2, so w f''(1) is the strength by which methods can be compared.
    """
    norm = train.rehearsal_norm
    rows = train.rehearsal_per_step / (train.prompts_per_step * train.rollouts_per_prompt)
    stored = (method.eta * (rows if norm == "joint" else 1.0), " T_pef / T_exp" if norm == "tokens" else "")
    weights = {"stored responses": stored} if method.rehearses else {}
    if method.needs_reference_model:
        halves = stored if method.rehearses else (method.eta, "")
        weights["rollouts"] = halves if method.js_beta == "auto" else (method.eta * method.js_beta, "")
    # f''(1), for each half of js_definition; a function of the user has an unknown one.
    curvature = {OWN: None, "js": method.js_scale / 2, "js_definition": 0.25}.get(method.form or "", 1.0)
    for responses, (weight, factor) in weights.items():
        strength = "f''(1) times it" if curvature is None else f"{weight * curvature:g}{factor}"
        yield f"divergence on {responses} of weight {weight:g}{factor} (policy loss: 1), strength {strength}"
