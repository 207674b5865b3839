"""Variance of a divergence's top-K estimates, as a Markdown table: python dev/benchmarks/topk_variance.py results/demo

At each position of the stored responses the reference draws its token again; the variance is exact, over all tokens of
the vocabulary with their probabilities. The table shows the variance of `sum` and `conditional`, averaged over the
positions and divided by the variance of the single sample: below 1 is better. The divergence is between the base policy
and the last policy of each training in the run; the run need not have stored top-K log-probs.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from dphrl.layout.names import DRAW
from dphrl.model.batch import Row, collate
from dphrl.model.logprobs import LogProbs, load_model
from dphrl.objective import divergence
from dphrl.objective.divergences import Divergence
from dphrl.objective.topk import topk_value
from dphrl.reference import load

SIZES = (1, 2, 4, 8, 16)
DIVERGENCES = (divergence("forward_kl", estimator="k3"), divergence("js"))
ESTIMATORS = {"sum": False, "conditional": True}


def last_policies(run: Path) -> dict[str, Path]:
    """The folder of the last policy of each training, by its name."""
    found: dict[str, Path] = {}
    folders = filter(Path.is_dir, run.glob("policies/*/step*"))
    for folder in sorted(folders, key=lambda path: int(path.name.removeprefix("step"))):
        found[folder.parent.name] = folder
    if not found:
        raise SystemExit(f"{run}: no trained policy in it; give the folder of a finished run, such as results/demo")
    return found


@torch.no_grad()
def distributions(base: LogProbs, policy: LogProbs, rows: Sequence[Row]) -> Iterator[tuple[Tensor, Tensor]]:
    """For each row the base's log-probs of all tokens, largest first, and the policy's of the same tokens.

    Both are float64 of shape (response length, vocabulary).
    """
    for row in rows:
        batch = collate([row])
        _, ids, reference = base.topk(batch, base.model.config.vocab_size)
        yield reference.double(), policy(batch, ids)[2].double()


def estimates(measure: Divergence, reference: Tensor, log_ratio: Tensor, k: int, rao_blackwell: bool) -> Tensor:
    """The estimate for each token that could be sampled: (positions, vocabulary); K = 0 is the single sample."""
    vocabulary = reference.shape[1]
    within = torch.arange(vocabulary) < k
    return topk_value(
        measure,
        log_ratio[:, :k].repeat_interleave(vocabulary, dim=0),
        reference[:, :k].repeat_interleave(vocabulary, dim=0),
        log_ratio.flatten(),
        within.repeat(len(reference)),
        rao_blackwell=rao_blackwell,
    ).view_as(reference)


def moments(reference: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the estimate at each position, over the tokens that the reference draws."""
    probs = reference.softmax(-1)
    mean = (probs * values).sum(-1)
    return mean, (probs * (values - mean[:, None]).square()).sum(-1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the run, e.g. results/demo")
    parser.add_argument("--responses", type=int, default=32, help="number of stored responses to use (default 32)")
    arguments = parser.parse_args()
    policies = last_policies(arguments.run)
    stored = load(arguments.run / "draws" / DRAW / "reference" / "responses.safetensors")
    rows, _ = stored.rows(range(min(arguments.responses, len(stored))))
    base = LogProbs(load_model(arguments.run / "policies" / "base", "float32"))

    print(f"{len(rows)} responses, {sum(len(row.response) for row in rows)} positions\n")
    print(f"| policy | divergence | mean | single sample | estimator | {' | '.join(f'K = {k}' for k in SIZES)} |")
    print(f"| --- | --- | ---: | ---: | --- | {'---: | ' * len(SIZES)}".rstrip())
    for name, folder in policies.items():
        pairs = list(distributions(base, LogProbs(load_model(folder, "float32")), rows))
        for measure in DIVERGENCES:
            mean, single = summary(measure, pairs, 0, False)
            for estimator, rao_blackwell in ESTIMATORS.items():
                ratios = [summary(measure, pairs, k, rao_blackwell)[1] / single for k in SIZES]
                cells = " | ".join(f"{ratio:.3f}" for ratio in ratios)
                print(f"| {name} | {measure.name} | {mean:.2e} | {single:.2e} | {estimator} | {cells} |", flush=True)


def summary(
    measure: Divergence, pairs: Sequence[tuple[Tensor, Tensor]], k: int, rao_blackwell: bool
) -> tuple[float, float]:
    """Mean of the estimate and its variance, averaged over all positions."""
    parts = [
        moments(reference, estimates(measure, reference, policy - reference, k, rao_blackwell))
        for reference, policy in pairs
    ]
    mean, variance = (torch.cat(of_rows).mean() for of_rows in zip(*parts, strict=True))
    return float(mean), float(variance)


if __name__ == "__main__":
    main()
