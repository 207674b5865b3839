"""Requests to an engine: order, seeds, shards."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config.blocks.sampling import EvaluatePlan, PlanConfig, PresamplePlan
from dphrl.policy.requests import GREEDY, Completion, Request, SamplingPlan, rollout_frame, sample_seed, shard
from dphrl.store.catalogue import SCHEMAS

PROMPTS = pl.DataFrame({"prompt_id": ["b", "a", "c"], "prompt_token_ids": [[1, 2], [3], [4, 5, 6]]})


def plan_requests(name: str, settings: PlanConfig, seed: int = 1, *names: str, **draw: str) -> list[Request]:
    return SamplingPlan(name, settings, seed, *names, **draw).requests(PROMPTS.iter_rows())


def test_one_request_per_sample_greedy_first_prompts_in_the_given_order() -> None:
    plan = EvaluatePlan(n=2, temperature=0.7, top_p=0.9, max_tokens=11)
    requests = plan_requests("evaluate", plan, seed=1)
    assert [(r.prompt_id, r.sample_index) for r in requests] == [
        (name, index) for name in "bac" for index in (GREEDY, 0, 1)
    ]
    assert [list(r.prompt_token_ids) for r in requests[::3]] == [[1, 2], [3], [4, 5, 6]]
    assert [(r.temperature, r.top_p, r.max_tokens) for r in requests[:2]] == [(0.0, 1.0, 11), (0.7, 0.9, 11)]


def test_no_two_samples_share_a_seed() -> None:
    prompts = [(f"p{i}", [1]) for i in range(50)]
    seeds = [
        request.seed
        for run_seed in (0, 1)
        for name in ("presample", "refine", "evaluate")
        for request in SamplingPlan(name, PlanConfig(n=8, greedy=True), run_seed).requests(prompts)
    ]
    assert len(set(seeds)) == len(seeds) == 2 * 3 * 50 * 9


@given(seed=st.integers(0, 2**31), label=st.text(max_size=5), index=st.integers(-1, 100))
def test_a_seed_fits_a_signed_64_bit_integer(seed: int, label: str, index: int) -> None:
    assert 0 <= sample_seed(seed, label, index) < 2**63
    assert sample_seed(seed, label, index) == sample_seed(seed, label, index)


def test_seeds_are_these() -> None:
    """Fixed for good: other seeds would change every run."""
    assert sample_seed(1, "presample", "a", 0) == 3281275269983139719
    assert sample_seed(1, "presample", "a", 1) == 5547084476496607957


@given(names=st.lists(st.text("abcdef", min_size=1, max_size=5), unique=True, max_size=30), shards=st.integers(1, 40))
def test_shards_are_a_partition_in_key_order(names: list[str], shards: int) -> None:
    columns = {"prompt_id": pl.String, "prompt_token_ids": pl.List(pl.Int32)}
    prompts = pl.DataFrame({"prompt_id": names, "prompt_token_ids": [[1]] * len(names)}, schema=columns)
    parts = [shard(prompts, i, shards) for i in range(shards)]
    assert [name for part in parts for name, _ in part] == sorted(names)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@given(shards=st.integers(1, 5))
def test_no_sample_depends_on_the_number_of_shards(shards: int) -> None:
    plan = SamplingPlan("evaluate", EvaluatePlan(n=2), 1)
    whole = plan.requests(PROMPTS.sort("prompt_id").iter_rows())
    assert [request for i in range(shards) for request in plan.requests(shard(PROMPTS, i, shards))] == whole


def test_rollouts_are_rows_of_their_table() -> None:
    requests = plan_requests("refine", PlanConfig(n=1), seed=1)
    completions = [Completion([i, 7], [-0.5, 1e-7], f"text {i}", "stop") for i in range(3)]
    frame = rollout_frame(requests, completions)
    assert frame.schema == SCHEMAS["rollouts"].columns
    assert SCHEMAS["rollouts"].conform(frame, "test")["prompt_id"].to_list() == ["a", "b", "c"]
    assert frame["seed"].to_list() == [r.seed for r in requests]
    assert frame["sampler_logprobs"].to_list() == [[-0.5, 0.0]] * 3
    assert frame["text"].to_list() == ["text 0", "text 1", "text 2"]
    assert SCHEMAS["rollouts"].conform(rollout_frame([], []), "test").height == 0


def test_every_policy_has_its_stream_of_seeds_and_only_the_base_has_none_of_its_name() -> None:
    names = ("base", "grpo-s1/step8", "grpo-s1/step16", "grpo-s2/step8", "dph_f-s1/step8")
    plan = EvaluatePlan(n=4)
    seeds = [[r.seed for r in plan_requests("evaluate", plan, 1, name)] for name in names]
    assert len({seed for of_policy in seeds for seed in of_policy}) == 5 * 3 * 5
    assert seeds[0] == [sample_seed(1, "evaluate", name, index) for name in "bac" for index in (GREEDY, 0, 1, 2, 3)]
    first = plan_requests("evaluate", plan, 1, "grpo-s1/step8")[1]
    assert first.seed == sample_seed(1, "evaluate", "grpo-s1/step8", "b", 0)


def test_every_draw_has_its_stream_of_seeds_and_only_main_has_none_of_its_name() -> None:
    plan = PresamplePlan(n=4)
    main, second, third = (
        {request.seed for request in plan_requests("presample", plan, 1, draw=draw)} for draw in ("main", "s2", "s3")
    )
    assert main == {request.seed for request in plan_requests("presample", plan, 1)}
    assert len(main | second | third) == 3 * 12
