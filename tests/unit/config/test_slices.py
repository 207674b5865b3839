"""A slice changes when, and only when, something changes that its stage depends on."""

from fnmatch import fnmatch
from typing import Any

import pytest
from configurations import demo, put
from hypothesis import given
from hypothesis import strategies as st

from dphrl.config import slices as parts
from dphrl.config.blocks.data import ScoringConfig
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.config.slices import canonical

DATA = put(demo(), "policy.base", "config/world-1")
TRAINED = "grpo-s1/step48"


def slices(config: Config) -> dict[str, Any]:
    """The slices of all stages of the demo, by name."""
    whole = ("base", "world", "candidates", "partition", "tables", "report", "samples", "cards")
    found = {name: getattr(parts, name)(config) for name in whole}
    found |= {stored: parts.reference(config, stored) for stored in config.stored}
    for part in ("prompts", "gold", "scoring", "evaluate"):
        found |= {f"{part} {name}": getattr(parts, part)(config, name) for name in config.datasets}
    found |= {f"train {method}": parts.train(config, method) for method in config.methods}
    found |= {f"draw {plan}": parts.sample(config, "base", "train", plan) for plan in ("presample", "refine")}
    for policy in ("base", TRAINED):
        found |= {f"draw {policy} {x}": parts.sample(config, policy, x, "evaluate") for x in config.evaluate.datasets}
    return found


def changed(**changes: Any) -> set[str]:
    """The slices that are others after changes of keys, in which `__` stands for a dot."""
    data = DATA
    for path, value in changes.items():
        data = put(data, path.replace("__", "."), value)
    before, after = slices(load_config(DATA)), slices(load_config(data))
    return {name for name in before if before[name] != after[name]}


# Keys with new values, and patterns of all slices that change.
EDITS: list[tuple[dict[str, Any], set[str]]] = [
    ({"run": "another", "seed": 9}, set()),
    ({"train__steps": 80, "train__seeds": [1, 2], "train__segment_steps": 10, "train__eval_every": 20}, set()),
    ({"train__trackers": ["wandb"], "train__keep_state": "all", "train__draws": "shared"}, set()),
    ({"train__eps_low": 0.2, "train__dual_clip": 3}, set()),  # defaults that are written out
    ({"train__lr": 1e-3}, {"train *"}),
    ({"methods__dph_f__eta": 0.5}, {"train dph_f"}),
    ({"methods__dph_f__steps": 144, "methods__another": {"divergence": "js"}}, set()),
    ({"hardware": {"ranks": 2, "zero_stage": 3, "token_budget": 4096, "kv_cache_gib": 2}}, set()),
    ({"partition__pef_min_correct": 5}, {"candidates"}),
    ({"partition__on_reject": "discard"}, {"partition"}),
    ({"reference__topk_logprobs": 8}, {"reference"}),
    ({"report__title": "Another"}, {"report"}),
    ({"report__samples__megabytes": 5}, {"samples"}),
    ({"toy__seed": 2}, {"world"}),
    ({"policy__base": None}, {"base"}),
    ({"prompts__max_tokens": 60}, {"prompts *"}),
    ({"datasets__cross__answer": "fenced"}, {"gold cross", "scoring cross"}),
    ({"datasets__cross__drop": []}, {"gold cross"}),
    ({"datasets__train__instruction": "Be brief."}, {"prompts train", "gold train"}),
    ({"scoring__sql__workers": 7}, set()),
    ({"scoring__math__timeout_s": 9}, {"gold maths", "scoring maths"}),
    ({"scoring__thoughts": {}}, {"prompts *", "scoring *", "train *"}),
    ({"sampling__presample__shards": 4, "sampling__evaluate__shards": 4}, set()),
    ({"sampling__evaluate__n": 32}, {"draw * *"}),
    ({"sampling__evaluate__n_by_dataset": {"cross": 32}}, {"draw * cross"}),
    ({"engine__stages__presample": "transformers"}, {"draw presample"}),
    ({"engine__stages__refine": "transformers"}, {"draw refine"}),
    ({"engine__stages__evaluate": "vllm"}, {"draw * *"}),
    ({"engine__stages__rollouts": "vllm"}, {"train *"}),
    ({"evaluate__k": [1, 2, 8]}, {"tables"}),
    ({"evaluate__styles__sql": []}, {"evaluate train", "evaluate in_domain", "evaluate cross"}),
]


@pytest.mark.parametrize(("changes", "patterns"), EDITS, ids=lambda value: " ".join(sorted(value)))
def test_an_edit_changes_the_slices_that_depend_on_it_alone(changes: dict[str, Any], patterns: set[str]) -> None:
    names = slices(load_config(DATA))
    assert changed(**changes) == {name for name in names if any(fnmatch(name, pattern) for pattern in patterns)}


def test_ranks_decide_the_rollouts_of_dynamic_sampling_alone() -> None:
    data = put(DATA, "methods.grpo.dynamic_sampling_rounds", 2)
    before, after = (slices(load_config(put(data, "hardware.ranks", ranks))) for ranks in (1, 2))
    assert {name for name in before if before[name] != after[name]} == {"train grpo"}


def test_independence_of_the_batch_is_of_sampling_alone() -> None:
    """In training vLLM shares its process, whose matrix products and NCCL it would replace and restrict."""
    data = put(DATA, "engine.stages", {"rollouts": "transformers"})
    before, after = (slices(load_config(put(data, "engine.batch_invariant", value))) for value in (False, True))
    names = {name for name in before if before[name] != after[name]}
    assert names == {name for name in before if name.startswith("draw ")}


def test_the_reward_repairs_operators_and_the_evaluation_leaves_it_to_the_comparison() -> None:
    for value, expected in (("auto", ("always", "auto", "always")), ("never", ("never",) * 3)):
        found = slices(load_config(put(DATA, "scoring.sql.repair", value)))
        assert tuple(found[name]["scorer"]["repair"] for name in ("scoring train", "scoring cross", "train grpo")) == (
            expected
        )


def test_a_policy_that_is_drawn_hotter_has_its_temperature_and_no_greedy_response() -> None:
    cold, warm = (parts.sample(load_config(DATA), f"{TRAINED}{end}", "cross", "evaluate") for end in ("", "/t1.3"))
    assert warm == {**cold, "plan": {**cold["plan"], "temperature": 1.3, "greedy": False}}


def test_recorded_answers_depend_on_no_engine() -> None:
    recorded = put(DATA, "replay", {"base": {"train": "answers.jsonl"}})
    config, other = load_config(recorded), load_config(put(recorded, "engine.stages", {}))
    for plan, first in (("presample", 0), ("refine", 8)):
        found = parts.sample(config, "base", "train", plan)
        assert found == parts.sample(other, "base", "train", plan)
        assert found["engine"] == {"first": first, "name": "replay", "template": "plain"}
    # Without pre-samples the refinement takes the first recorded answers.
    given_parts = put(recorded, "partition", {"given": {"pef": "pef.jsonl", "exp": "exp.jsonl"}})
    config = load_config(put(given_parts, "train.probe", {"prompts": 0}))
    assert parts.sample(config, "base", "train", "refine")["engine"]["first"] == 0


def test_a_slice_has_no_path_of_a_scorer() -> None:
    data = put(DATA, "scoring.custom", {"mine": {"source": "here.py", "options": {"case": True}}})
    config = load_config(put(data, "datasets.cross", {"task": "mine", "source": "x.jsonl"}))
    assert "here.py" not in repr(parts.scoring(config, "cross"))


def test_a_block_can_be_read_back_from_its_slice() -> None:
    config = load_config(DATA)
    assert load_config(canonical(config)) == config
    for name, method in config.methods.items():
        block = parts.train(config, name)
        assert MethodConfig.model_validate(block["method"]) == method
        scoring = {"sql": block["scorer"] | {"workers": 1, "repair": config.scoring.sql.repair}}
        assert ScoringConfig.model_validate(scoring).sql == config.scoring.sql
        schedule = {"steps": 48, "segment_steps": 16, "eval_every": 16, "seeds": [1]}
        assert TrainConfig.model_validate(block["train"] | schedule) == config.train
    plan = parts.sample(config, "base", "train", "refine")["plan"]
    assert PlanConfig.model_validate(plan).model_dump() == config.sampling.refine.model_dump()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def turned(value: Any) -> Any:
    """The same value with the keys in another order at every level, and tuples in place of lists."""
    if isinstance(value, dict):
        return {key: turned(inner) for key, inner in reversed(value.items())}
    return tuple(map(turned, value)) if isinstance(value, list) else value


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_the_repr_of_a_canonical_block_depends_on_its_values_alone(data: dict[str, Any]) -> None:
    # Snakemake compares params by repr.
    assert repr(canonical(data)) == repr(canonical(turned(data)))
    assert canonical(data) == data
