"""The probes: at some steps the policy answers a fixed sample of the prompts of D_pef and one of D_exp.

They show the effect of a training on rehearsed and on explored prompts, whatever the method trains on.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl
import torch
from torch import Tensor

from dphrl.config.blocks.training import TrainConfig
from dphrl.objective.divergences import divergence
from dphrl.policy.batch import Row
from dphrl.policy.collectives import all_gather, all_reduce_sum, rank, world_size
from dphrl.policy.engine import Engine
from dphrl.store.catalogue import SCHEMAS
from dphrl.training.rollouts import OnlinePrompt, Score, rollout_request
from dphrl.training.trainer import Trainer

SUBSETS = ("pef", "exp")


@dataclass(frozen=True)
class ProbePrompt:
    """A prompt of a probe.

    Attributes:
        subset: of the partition.
        drawn: responses of the base policy, each with its log-probs as the sampling engine recorded them.
    """

    subset: str
    prompt: OnlinePrompt
    drawn: Sequence[tuple[Row, Tensor]] = ()


def probe_prompts(
    partition: pl.LazyFrame, prompts: pl.LazyFrame, gold: pl.LazyFrame, presamples: pl.LazyFrame, config: TrainConfig
) -> list[ProbePrompt]:
    """The prompts of the probes in key order: of each subset those whose ids have the smallest hashes.

    So they are the same for every method, seed and step. Of their pre-samples the first `probe.samples` are used;
    recorded answers have no log-probs and are left out.
    """
    subsets = partition.filter(pl.col("subset").is_in(SUBSETS)).select("prompt_id", "subset").collect()
    order = sorted(subsets.iter_rows(), key=lambda row: hashlib.blake2b(row[0].encode(), digest_size=16).digest())
    chosen = {key for name in SUBSETS for key, _ in [row for row in order if row[1] == name][: config.probe.prompts]}
    here = pl.col("prompt_id").is_in(chosen)
    rows = (
        subsets.lazy().filter(here).join(prompts, on="prompt_id").join(gold, on="prompt_id").sort("prompt_id")
    ).select("subset", "prompt_id", "prompt_token_ids", "thought_open", "ground_truth")
    first = presamples.filter(here, pl.col("sample_index") < config.probe.samples).sort("prompt_id", "sample_index")
    drawn = defaultdict(list)
    for key, tokens, logprobs in first.select("prompt_id", "token_ids", "sampler_logprobs").collect().iter_rows():
        if tokens and len(tokens) == len(logprobs):
            drawn[key].append((tokens, torch.tensor(logprobs)))
    return [
        ProbePrompt(
            subset,
            OnlinePrompt(key, asked, inside, json.loads(truth)),
            [(Row(asked, tokens), logprobs) for tokens, logprobs in drawn[key]],
        )
        for subset, key, asked, inside, truth in rows.collect().iter_rows()
    ]


@dataclass
class Probes:
    """Measures a policy on the prompts of the probes; with several ranks, each draws the answers to its share.

    Attributes:
        prompts: of `probe_prompts`.
        seed: of the training.
        rows: of the table "probes", of all measured steps.
    """

    trainer: Trainer
    engine: Engine
    prompts: Sequence[ProbePrompt]
    score: Score
    config: TrainConfig
    seed: int
    rows: list[Sequence[object]] = field(default_factory=list)

    def due(self, step: int) -> bool:
        """Whether the policy after a step is measured; step 0 is the start."""
        return bool(self.prompts) and step % self.config.probe.every == 0

    def measure(self, step: int) -> dict[str, float]:
        """Draw and score the answers of the policy, whose weights the engine holds; the engine then sleeps.

        Returns:
            For each subset the share of right answers, and the forward KL in nats per token: k3 over the base's
            responses, whose expectation is KL(base || policy) for the distribution that they were drawn from.
        """
        share = self.prompts[rank() :: world_size()]
        size = self.config.probe.samples
        requests = [
            rollout_request(self.config, self.seed, ("probe", step), probe.prompt, number)
            for probe in share
            for number in range(size)
        ]
        completions = self.engine.generate(requests)
        self.engine.sleep()
        of_answers = [probe.prompt for probe in share for _ in range(size)]
        truths, opened = [prompt.ground_truth for prompt in of_answers], [prompt.thought_open for prompt in of_answers]
        verdicts = self.score([completion.text for completion in completions], truths, opened)
        subsets = [probe.subset for probe in share for _ in range(size)]
        answers = zip(subsets, requests, completions, verdicts, strict=True)
        rows = [
            (
                *(step, asked.prompt_id, asked.sample_index, subset, answer.text),
                *(verdict.extracted, verdict.correct, verdict.answer_class),
            )
            for subset, asked, answer, verdict in answers
        ]
        self.rows += sorted(row for of_rank in all_gather(rows) for row in map(tuple, of_rank))
        sums: dict[str, float] = defaultdict(float)
        for subset, verdict in zip(subsets, verdicts, strict=True):
            sums[f"right_{subset}"] += verdict.correct
            sums[f"answers_{subset}"] += 1
        for subset, value in self._divergences(share):
            sums[f"divergence_{subset}"] += float(value.double().sum())
            sums[f"tokens_{subset}"] += len(value)
        totals = all_reduce_sum(sums)
        return {
            f"probe_{name}_{subset}": totals[f"{total}_{subset}"] / totals[f"{count}_{subset}"]
            for name, total, count in (("correct", "right", "answers"), ("forward_kl", "divergence", "tokens"))
            for subset in SUBSETS
            if totals.get(f"{count}_{subset}")
        }

    def table(self) -> pl.DataFrame:
        """All answers that were drawn so far, with their verdicts: the table "probes" of the catalogue."""
        return SCHEMAS["probes"].frame(self.rows)

    def _divergences(self, share: Sequence[ProbePrompt]) -> list[tuple[str, Tensor]]:
        """The subset of each response of the base to a share of the prompts, and k3 of its tokens."""
        drawn = [(probe.subset, row, logprobs) for probe in share for row, logprobs in probe.drawn]
        # All ranks take part in a pass, so one without a response computes one that does not count.
        spare = [row for probe in self.prompts for row, _ in probe.drawn][:1]
        rows = [row for _, row, _ in drawn] or spare
        ours = self.trainer.logprobs(rows) if rows else []
        form = divergence("forward_kl", estimator="k3")
        return [
            (subset, form.value(now - reference.to(now)))
            for (subset, _, reference), now in zip(drawn, ours, strict=False)
        ]
