"""What is stated at the start of a run and on its page."""

import pytest
from configurations import RECORDED, demo, put

from dphrl.config import slices
from dphrl.config.config import Config
from dphrl.config.load import load_config
from dphrl.config.notices import notices


def test_effective_weight_and_strength_of_every_divergence_are_stated() -> None:
    meaning, *separate = notices(load_config(demo()))
    assert "how strongly it holds the policy near the base" in meaning
    assert [line.split(" weighs ")[1].split()[0] for line in separate] == ["0.1", "0.2"]
    methods = {
        "rkl": {"rollout_on": "all", "divergence": "reverse_kl"},
        "dph_f": {"divergence": "forward_kl"},
        "dph_js": {"divergence": "js"},
        "definition": {"divergence": "js_definition"},
        "halves": {"divergence": "js_definition", "js_beta": 0.1},
        "grpo": {},
    }
    # METHOD's published strengths, here too at 32 stored responses to 256 rollouts: .01, .00125 and .0125.
    expected = {
        "rkl": [("0.01", "0.01")],
        "dph_f": [("0.00125", "0.00125")],
        "dph_js": [("0.025", "0.0125")],
        "definition": [("0.025", "0.00625")],
        "halves": [("0.025", "0.00625"), ("0.02", "0.005")],
    }
    stated: dict[str, list[tuple[str, str]]] = {}
    for line in list(notices(load_config(put(put(demo(), "methods", methods), "train.rehearsal_norm", "joint"))))[1:]:
        name, _, rest = line.partition(": ")
        words = rest.split(" weighs ")[1].split()
        stated.setdefault(name, []).append((words[0], words[-1]))
    assert stated == expected
    by_tokens = put(put(demo(), "methods", {"m": {"divergence": "js"}}), "train.rehearsal_norm", "tokens")
    _, line = notices(load_config(by_tokens))
    assert " weighs 0.025 x (mean length of stored responses / of rollouts) of the policy loss" in line


def test_a_truncated_policy_is_stated() -> None:
    (line,) = notices(load_config(put(put(demo(), "train.top_p", 0.95), "methods", {"grpo": {}})))
    assert line.startswith("train.top_p is 0.95")
    assert not list(notices(load_config(RECORDED)))


@pytest.mark.parametrize(
    ("datasets", "seen"),
    [
        ({"train": "a.jsonl", "test": "b.jsonl"}, None),
        ({"train": "a.jsonl"}, "(train)"),
        ({"train": "a.jsonl", "test": "b.jsonl", "again": "a.jsonl"}, "(again)"),
    ],
)
def test_evaluation_on_the_training_questions_is_stated(datasets: dict[str, str], seen: str | None) -> None:
    evaluated = [name for name in datasets if name != "train"] or ["train"]
    blocks = {
        "run": "r",
        "policy": {"base": "b"},
        "datasets": {name: {"task": "math", "source": source} for name, source in datasets.items()},
        "train_dataset": "train",
        "evaluate": {"datasets": evaluated},
    }
    config = load_config(blocks)
    lines = [line for line in notices(config) if line.startswith("evaluate.datasets has the training")]
    assert len(lines) == (seen is not None)
    assert seen is None or seen in lines[0]
    assert slices.report(config)["report"]["notes"] == lines


@pytest.mark.parametrize(
    ("path", "value", "stated"),
    [
        ("train.draws", "per_seed", False),
        ("train.draws", "shared", True),
        ("replay", {"base": {"train": "answers.jsonl"}}, True),
    ],
)
def test_seeds_that_share_their_presamples_are_stated(path: str, value: object, stated: bool) -> None:
    def shared(config: Config) -> list[str]:
        return [line for line in notices(config) if "these pre-samples only" in line]

    config = load_config(put(put(demo(), "train.seeds", [1, 2]), path, value))
    assert len(shared(config)) == stated
    assert set(shared(config)) <= set(slices.report(config)["report"]["notes"])
    assert shared(load_config(put(demo(), path, value))) == []


def test_bfloat16_on_cores_of_a_cpu_is_named():
    def lines(dtype, gpu_gib):
        hardware, precision = {"hardware": {"gpu_gib": gpu_gib}}, {"dtype": dtype}
        config = load_config({**RECORDED, "policy": {"base": "m"}, "engine": precision, "train": precision, **hardware})
        return [line for line in notices(config) if line.startswith("engine.dtype, train.dtype: set float32 ")]

    assert len(lines("bfloat16", None)) == 1
    assert lines("float32", None) == lines("bfloat16", 80) == []
