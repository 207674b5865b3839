"""What a reader of results must know about a configuration: printed at the start of a run, and noted on its page."""

from collections.abc import Iterator

from dphrl.config.blocks.data import TOY
from dphrl.config.config import Config

STRENGTHS = (
    "Weight of each divergence (the policy loss has 1), and strength: how strongly it holds the policy near the base. "
    "Equal strengths compare divergences near the base; further away their shares of the gradient do (docs/method.md)."
)


def notices(config: Config) -> Iterator[str]:
    """The lines at the start of a run: effective weights of the divergences, and all caveats."""
    yield from strengths(config)
    if config.methods and config.train.top_p < 1:
        yield (
            f"train.top_p is {config.train.top_p:g}: rollouts are drawn from the truncated policy, but pi_old is the "
            "full softmax, so their supports differ"
        )
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
    yield from trained_on(config)


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
