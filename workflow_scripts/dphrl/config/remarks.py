"""What a configuration comes to, where it does not say so itself; told at the start of a run."""

from collections.abc import Iterator

from dphrl.config.config import Config


def remarks(config: Config) -> Iterator[str]:
    """Sentences that a reader of the results should know."""
    train = config.train
    rollouts = train.prompts_per_step * train.rollouts_per_prompt
    share = train.rehearsal_per_step / rollouts if train.rehearsal_norm == "joint" else 1.0
    for name, method in config.methods.items():
        if method.rehearses:
            yield (
                f"{name}: rehearsal weighs {method.eta * share:g} of the policy loss (eta {method.eta:g}, "
                f"rehearsal_norm {train.rehearsal_norm}, {train.rehearsal_per_step} stored to {rollouts} rolled out)"
            )
    if config.methods and train.top_p < 1:
        yield (
            f"train.top_p is {train.top_p:g}: rollouts leave out the tail of the policy, but pi_old is of its whole "
            "softmax, so their supports differ"
        )
