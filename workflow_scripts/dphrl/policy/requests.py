"""Requests to an engine and their completions. A sampling plan becomes one request per sample, each with its seed."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from dphrl.config.blocks.sampling import PlanConfig
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.policy_names import BASE, DRAW

GREEDY = -1
# A sampling job is interrupted without a loss between its parts. This is some minutes of a GPU, since at the end of a
# part the engine waits for its longest response: 512 prompts of 32 samples. Parts change the rounding of log-probs, so
# their size is code that reruns, and no setting.
REQUESTS_PER_PART: Final = 1 << 14


@dataclass(frozen=True)
class Request:
    """One response to draw. Each sample is a separate request: `n` samples of one request would share seeds."""

    prompt_id: str
    sample_index: int
    prompt_token_ids: Sequence[int]
    seed: int
    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Completion:
    """A response that an engine drew.

    Attributes:
        token_ids: response tokens, with the end token if the model drew it.
        logprobs: of each token under the untruncated softmax at temperature 1, as the sampler computed them.
        text: the tokens without special ones.
        finish_reason: "stop" or "length".
    """

    token_ids: list[int]
    logprobs: list[float]
    text: str
    finish_reason: str


def sample_seed(seed: int, *labels: object) -> int:
    """A seed in [0, 2^63) for one sample: a hash, so neighbouring seeds and indices are unrelated."""
    text = "/".join(map(str, (seed, *labels)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


@dataclass(frozen=True)
class SamplingPlan:
    """A plan as one policy is asked by it: the prompts alone are still open.

    Attributes:
        name: presample, refine or evaluate. It is part of each seed: a refinement sample is independent of the
            pre-samples.
        settings: number of samples, temperature, limits.
        seed: of the run.
        policy: name of the policy. It is part of each seed, so that the draws of two policies are independent: with
            one seed a policy that hardly moved repeats the samples of the base. The base is the same in every run:
            its name is not in its seeds.
        draw: of stage 1. Draws are independent; the name of the draw of the run's seed is not in its seeds.
    """

    name: str
    settings: PlanConfig
    seed: int
    policy: str = BASE.method
    draw: str = DRAW

    def requests(self, prompts: Iterable[tuple[str, Sequence[int]]]) -> list[Request]:
        """The requests to prompts (id and token ids), in their order; greedy (sample_index -1) first if wanted."""
        plan, policy, draw = self.settings, self.policy, self.draw
        labels = [self.name, *([] if policy == BASE.method else [policy]), *([] if draw == DRAW else [draw])]
        indices = [*([GREEDY] if plan.greedy else []), *range(plan.n)]
        return [
            Request(
                prompt_id,
                index,
                tokens,
                seed=sample_seed(self.seed, *labels, prompt_id, index),
                temperature=0.0 if index == GREEDY else plan.temperature,
                top_p=1.0 if index == GREEDY else plan.top_p,
                max_tokens=plan.max_tokens,
            )
            for prompt_id, tokens in prompts
            for index in indices
        ]


def shard(prompts: pl.DataFrame, index: int, shards: int) -> list[tuple[str, list[int]]]:
    """Id and token ids of the prompts of part `index` of `shards`, in key order.

    Parts differ by at most one prompt and may be empty.
    """
    ordered = prompts.select("prompt_id", "prompt_token_ids").sort("prompt_id")
    start, end = (ordered.height * i // shards for i in (index, index + 1))
    return list(ordered.slice(start, end - start).iter_rows())


def rollout_frame(requests: Sequence[Request], completions: Sequence[Completion]) -> pl.DataFrame:
    """Requests and their completions as rows of the rollouts table."""
    pairs = list(zip(requests, completions, strict=True))
    return SCHEMAS["rollouts"].frame(
        {
            "prompt_id": [r.prompt_id for r, _ in pairs],
            "sample_index": [r.sample_index for r, _ in pairs],
            "seed": [r.seed for r, _ in pairs],
            "token_ids": [c.token_ids for _, c in pairs],
            # Rounding may leave a log-prob slightly above zero.
            "sampler_logprobs": [[min(x, 0.0) for x in c.logprobs] for _, c in pairs],
            "text": [c.text for _, c in pairs],
            "finish_reason": [c.finish_reason for _, c in pairs],
        }
    )
