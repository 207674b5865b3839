"""Requests to an engine and their completions: a sampling plan becomes one request per sample, each with its seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.layout.names import BASE, DRAW

GREEDY = -1


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


def plan_requests(
    prompts: pl.DataFrame, name: str, plan: PlanConfig, seed: int, policy: str = BASE.method, draw: str = DRAW
) -> list[Request]:
    """The requests of a plan: prompts in the given order, greedy (sample_index -1) first if the plan has it.

    Args:
        prompts: frame with prompt_id and prompt_token_ids.
        name: the plan's name, which is part of each seed: a refinement sample is independent of the pre-samples.
        seed: the run's seed.
        policy: name of the policy that answers. It is part of each seed, so that the draws of two policies are
            independent: with one seed a policy that hardly moved repeats the samples of the base. The base, which is
            the same in every run, has no name in its seeds.
        draw: of stage 1. Draws are independent; that of the run's seed alone has no name in its seeds.
    """
    labels = [name, *([] if policy == BASE.method else [policy]), *([] if draw == DRAW else [draw])]
    indices = [*([GREEDY] if plan.greedy else []), *range(plan.n)]
    return [
        Request(
            prompt_id,
            index,
            tokens,
            seed=sample_seed(seed, *labels, prompt_id, index),
            temperature=0.0 if index == GREEDY else plan.temperature,
            top_p=1.0 if index == GREEDY else plan.top_p,
            max_tokens=plan.max_tokens,
        )
        for prompt_id, tokens in prompts.select("prompt_id", "prompt_token_ids").iter_rows()
        for index in indices
    ]


def shard(prompts: pl.DataFrame, index: int, shards: int) -> pl.DataFrame:
    """Part `index` of `shards` of the prompts in key order; parts differ by at most one row and may be empty."""
    ordered = prompts.sort("prompt_id")
    start, end = (ordered.height * i // shards for i in (index, index + 1))
    return ordered.slice(start, end - start)


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
