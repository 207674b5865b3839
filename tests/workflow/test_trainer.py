"""The trainer beside its sampling engine, both real: what one update is, what a push delivers, what a cut changes."""

import gc
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from dphrl.artifacts import SCHEMAS, write_table
from dphrl.config.engine import EngineConfig
from dphrl.config.methods import MethodConfig
from dphrl.config.train import TrainConfig
from dphrl.model import LogProbs, Row, load_model
from dphrl.reference import ReferenceResponses, load, save_tensors, tensorise
from dphrl.rollout import Request
from dphrl.rollout.vllm_engine import VllmEngine
from dphrl.toy.tokenizer import write_tokenizer
from dphrl.training import (
    Example,
    Judged,
    OnlinePrompt,
    Segment,
    StaleWeightsError,
    Trainer,
    WeightSync,
    start_process_group,
)

pytestmark = pytest.mark.workflow

ONLINE = [f"shop: Q: how many of {i}?\nA: " for i in range(6)]
REHEARSED = [f"zoo: Q: which {i} are old?\nA: " for i in range(5)]
ETA = 0.5
# One update moves a weight by about `lr`, so equal to 1e-6 means equal to 1 %; the norm of the gradient is far sharper.
LR, TOLERANCE = 1e-4, 1e-6


@pytest.fixture(scope="module", autouse=True)
def _process_group() -> Iterator[None]:
    """The process group of this process; what it leaves in the environment would reach later child processes."""
    before, threads = dict(os.environ), torch.get_num_threads()
    torch.set_num_threads(1)
    start_process_group()
    yield
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with a tokenizer of its own."""
    folder = tmp_path_factory.mktemp("policy")
    write_tokenizer(ONLINE + REHEARSED, 90, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=128,
        max_position_embeddings=256,
        initializer_range=0.1,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(policy: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(policy)


@pytest.fixture(scope="module")
def engine(policy: Path) -> Iterator[VllmEngine]:
    config = EngineConfig(dtype="float32", max_model_len=256, max_num_seqs=16, kv_cache_gib=1)
    engine = VllmEngine(policy, config, distributed=True)
    yield engine
    del engine
    gc.collect()


def _train_config(**changes: Any) -> TrainConfig:
    settings: dict[str, Any] = {
        "steps": 4,
        "segment_steps": 2,
        "eval_every": 4,
        "prompts_per_step": 4,
        "rollouts_per_prompt": 4,
        "rehearsal_per_step": 4,
        "mini_batches": 2,
        "max_tokens": 12,
        "lr": LR,
        "dtype": "float32",
        "rehearsal_norm": "separate",
        "token_budget": 200,
    }
    return TrainConfig(**(settings | changes))


JS = MethodConfig(divergence="js", eta=ETA)


def _trainer(policy: Path, method: MethodConfig = JS, **changes: Any) -> Trainer:
    return Trainer(load_model(policy, "float32"), _train_config(**changes), method)


def _weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in trainer.weights()}


def _gap(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def _distance(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    return float(torch.cat([(ours[name] - theirs[name]).flatten() for name in ours]).norm())


@pytest.fixture(scope="module")
def examples(policy: Path) -> list[Example]:
    """Rows of both kinds in mixed order; the stored log-probs are far from the policy's own, as after some training."""
    generator = torch.Generator().manual_seed(1)
    vocabulary = load_model(policy, "float32").config.vocab_size

    def numbers(low: int, high: int, n: int) -> list[int]:
        return torch.randint(low, high, (n,), generator=generator).tolist()

    rows = [
        Row(numbers(3, vocabulary, a), numbers(3, vocabulary, b))
        for a, b in zip(numbers(3, 9, 20), numbers(1, 9, 20), strict=True)
    ]
    now = _trainer(policy).logprobs(rows)
    noise = [torch.randn(len(part), generator=generator) for part in now]
    examples = []
    for i, (row, logprobs, off) in enumerate(zip(rows, now, noise, strict=True)):
        if i % 5 == 2:
            examples.append(Example(row, reference=logprobs + 0.4 * off))
        else:
            # Of either sign, and with ratios beyond every clip.
            old = logprobs + 1.5 * off if i % 2 else None
            examples.append(Example(row, advantage=(0.3 + i / 10) * (1 if i % 4 < 2 else -1), old=old))
    return examples


def _update(
    policy: Path, examples: Sequence[Example], method: MethodConfig = JS, **changes: Any
) -> tuple[dict[str, Tensor], float]:
    """Weights after one update from `policy`, and the norm of the gradient."""
    trainer = _trainer(policy, method, **changes)
    norm = trainer.update(examples, LR)["grad_norm"]
    return _weights(trainer), norm


def test_an_update_does_not_depend_on_row_order_or_micro_batches(policy: Path, examples: list[Example]) -> None:
    weights, norm = _update(policy, examples)
    assert _gap(weights, _weights(_trainer(policy))) > LR / 2
    for order, budget in ((examples[::-1], 200), (examples, 1), (examples[7:] + examples[:7], 40), (examples, 10_000)):
        other, other_norm = _update(policy, order, token_budget=budget)
        assert _gap(weights, other) <= TOLERANCE
        assert other_norm == pytest.approx(norm, rel=1e-5)


def _js(log_ratio: Tensor) -> Tensor:
    u = log_ratio.exp()
    return u * log_ratio - (u + 1) * ((u + 1) / 2).log()


def _loss_alone(model: LlamaForCausalLM, examples: Sequence[Example], rehearsal: bool) -> Tensor:
    """The token mean of one kind of rows, each by a forward of its own and the formulas of the paper."""
    losses = []
    for example in examples:
        if (example.reference is not None) != rehearsal:
            continue
        ids = torch.tensor([[*example.row.prompt, *example.row.response]])
        logprobs = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        ours = logprobs[len(example.row.prompt) - 1 :]
        if example.reference is not None:
            losses.append(_js(ours - example.reference))
            continue
        ratio = (ours - (ours.detach() if example.old is None else example.old)).exp()
        a = example.advantage
        clipped = torch.maximum(-a * ratio, -a * ratio.clamp(0.8, 1.28))
        losses.append(clipped if a > 0 else clipped.clamp(max=-3.0 * a))
    return torch.cat(losses).mean()


@pytest.mark.parametrize("norm", ["separate", "joint"])
def test_a_mixed_batch_is_the_weighted_sum_of_the_two_losses_alone(
    policy: Path, examples: list[Example], norm: str
) -> None:
    """Against two steps of PyTorch's own AdamW on gradients that were computed apart."""
    share = {"separate": (1.0, ETA), "joint": (16 / 20, ETA * 4 / 20)}[norm]
    trainer = _trainer(policy, rehearsal_norm=norm)
    before = _weights(trainer)
    model = LlamaForCausalLM.from_pretrained(policy, dtype=torch.float32)
    parameters = list(model.parameters())
    adam = torch.optim.AdamW(parameters, lr=LR, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    for _ in range(2):
        found = trainer.update(examples, LR)["grad_norm"]
        parts = [
            torch.autograd.grad(_loss_alone(model, examples, rehearsal), parameters) for rehearsal in (False, True)
        ]
        for parameter, exploration, rehearsal in zip(parameters, *parts, strict=True):
            parameter.grad = share[0] * exploration + share[1] * rehearsal
        expected = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        assert found == pytest.approx(float(expected), rel=1e-4)
        adam.step()
    expected_weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    # Adam makes an update of a gradient that is mere rounding, so single weights may differ by more.
    assert _distance(_weights(trainer), expected_weights) <= 1e-3 * _distance(before, expected_weights)


@pytest.mark.parametrize("budget", [60, 10_000])
def test_without_weight_the_rehearsal_changes_no_bit(policy: Path, examples: list[Example], budget: int) -> None:
    explored = [example for example in examples if example.reference is None]
    alone = _update(policy, explored, MethodConfig(), token_budget=budget)
    weightless = _update(policy, examples, MethodConfig(divergence="js", eta=0.0), token_budget=budget)
    assert _gap(alone[0], weightless[0]) == 0.0
    assert alone[1] == weightless[1]


def test_before_any_update_the_divergence_is_nothing(policy: Path, examples: list[Example]) -> None:
    trainer = _trainer(policy)
    rows = [example.row for example in examples]
    stored = [Example(r, reference=p) for r, p in zip(rows, trainer.logprobs(rows), strict=True)]
    found = trainer.update(stored, LR)
    assert 0 <= found["divergence_sum"] < 1e-9
    assert found["grad_norm"] < 1e-5


def test_a_gradient_that_is_not_finite_changes_nothing(policy: Path, examples: list[Example]) -> None:
    trainer = _trainer(policy)
    before = _weights(trainer)
    assert trainer.update([*examples, Example(examples[0].row, advantage=float("nan"))], LR)["grad_norm"] == float(
        "inf"
    )
    assert _gap(before, _weights(trainer)) == 0.0
    trainer.update(examples, LR)
    assert 0 < _gap(before, _weights(trainer)) < 2 * LR


def test_a_state_that_was_saved_goes_on_bit_for_bit(policy: Path, examples: list[Example], tmp_path: Path) -> None:
    trainer = _trainer(policy)
    trainer.update(examples, LR)
    trainer.save_state(tmp_path / "state")
    trainer.model.save_pretrained(tmp_path / "policy")
    again = _trainer(tmp_path / "policy")
    again.load_state(tmp_path / "state")
    fresh = _trainer(tmp_path / "policy")
    norms = [t.update(examples[:9], 2 * LR)["grad_norm"] for t in (trainer, again, fresh)]
    assert norms[0] == norms[1]
    assert _gap(_weights(trainer), _weights(again)) == 0.0
    # The moments matter: it is not the weights alone that agree.
    assert _gap(_weights(trainer), _weights(fresh)) > LR / 10
    again.save_state(tmp_path / "again")
    trainer.save_state(tmp_path / "through")
    written = [(tmp_path / name / "optimizer.safetensors").read_bytes() for name in ("again", "through")]
    assert written[0] == written[1]


def test_a_state_of_another_layout_is_refused(policy: Path, tmp_path: Path) -> None:
    _trainer(policy).save_state(tmp_path)
    with pytest.raises(ValueError, match=r'optimizer\.safetensors: written by .*"zero_stage": 1.*"zero_stage": 2'):
        _trainer(policy, zero_stage=2).load_state(tmp_path)
    config = load_model(policy, "float32").config
    config.num_hidden_layers = 1
    with pytest.raises(ValueError, match=r"optimizer\.safetensors: written by .*masters"):
        Trainer(LlamaForCausalLM(config), _train_config(), JS).load_state(tmp_path)


class WithoutHead(Trainer):
    """Names all its weights but the output head, as a model with tied embeddings does."""

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        return ((name, weight) for name, weight in super().weights() if name != "lm_head.weight")


@dataclass
class Deaf:
    """An engine that a push does not reach."""

    engine: VllmEngine

    @property
    def max_model_len(self) -> int:
        return self.engine.max_model_len

    def push(self, weights: object) -> None:
        pass

    def text_logprobs(self, token_ids: Sequence[int]) -> Tensor:
        return self.engine.text_logprobs(token_ids)


def test_the_canary_sees_what_arrived_and_what_did_not(
    policy: Path, engine: VllmEngine, tokenizer: PreTrainedTokenizerBase, examples: list[Example]
) -> None:
    tolerance = 1e-4
    texts = [tokenizer(text)["input_ids"] for text in ONLINE]
    trainer = _trainer(policy)
    sync = WeightSync(trainer, engine, tolerance, texts)
    assert sync.control() > 100 * tolerance
    assert sync.push(1) <= tolerance
    for _ in range(3):
        trainer.update(examples, 1e-2)
    with pytest.raises(StaleWeightsError, match=r"positive control: perturbed weights were pushed"):
        WeightSync(_trainer(policy), Deaf(engine), tolerance, texts).control()  # type: ignore[arg-type]
    with pytest.raises(StaleWeightsError, match=r"step 2: after the weight push .* differ"):
        WeightSync(trainer, Deaf(engine), tolerance, texts).push(2)  # type: ignore[arg-type]
    assert sync.push(2) <= tolerance

    headless = WithoutHead(load_model(policy, "float32"), _train_config(), JS)
    with pytest.raises(StaleWeightsError, match=r"step 3: after the weight push .* other weights than are trained"):
        WeightSync(headless, engine, tolerance, texts).push(3)
    assert sync.push(4) <= tolerance


def test_a_push_forgets_prefixes_of_the_weights_before(policy: Path, engine: VllmEngine) -> None:
    """The canary's own request reads no cached prefix; a rollout does."""
    # Longer than a block of the engine's cache.
    prompt = [3 + i % 7 for i in range(200)]
    request = Request("p", 0, prompt, seed=1, temperature=1.0, top_p=1.0, max_tokens=8)
    trainer = _trainer(policy)
    for scale in (0.0, 1e-2):
        if scale:
            trainer.update([Example(Row(prompt, [5, 6, 7]), advantage=1.0)], scale)
        engine.push(trainer.weights())
        for _ in range(2):
            (completion,) = engine.generate([request])
            (ours,) = trainer.logprobs([Row(prompt, completion.token_ids)])
            torch.testing.assert_close(torch.tensor(completion.logprobs), ours, atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def reference(
    policy: Path, tokenizer: PreTrainedTokenizerBase, tmp_path_factory: pytest.TempPathFactory
) -> ReferenceResponses:
    """Stored responses, as the reference stage writes them."""
    module = LogProbs(load_model(policy, "float32"))
    prompts = [tokenizer(text)["input_ids"] for text in REHEARSED]
    responses = [tokenizer(f"old {i}")["input_ids"] for i in range(len(prompts))]
    rows = pl.DataFrame(
        {
            "prompt_id": [f"r{i}" for i in range(len(prompts))],
            "sample_index": 0,
            "prompt_token_ids": prompts,
            "token_ids": responses,
            "sampler_logprobs": [[0.0] * len(ids) for ids in responses],
        }
    )
    tensors, index = tensorise(rows, module, 1000)
    folder = tmp_path_factory.mktemp("reference")
    save_tensors(tensors, folder / "responses.safetensors")
    write_table(index, "reference_index", folder / "index.parquet", {})
    return load(folder / "responses.safetensors")


@dataclass
class Judgement:
    """A verdict of a scorer that likes responses of even length."""

    correct: bool
    reward: float


def _score(texts: list[str], ground_truths: list[dict[str, object]]) -> Sequence[Judged]:
    assert len(texts) == len(ground_truths) == 16
    return [Judgement(len(text) % 2 == 0, float(len(text) % 2 == 0)) for text in texts]


def test_a_run_cut_into_segments_is_the_same_run(
    policy: Path, engine: VllmEngine, tokenizer: PreTrainedTokenizerBase, reference: ReferenceResponses, tmp_path: Path
) -> None:
    prompts = [OnlinePrompt(f"p{i}", tokenizer(text)["input_ids"], {"answer": "1"}) for i, text in enumerate(ONLINE)]
    config = _train_config(lr=1e-3)

    def run(trainer: Trainer, first: int, last: int) -> pl.DataFrame:
        return Segment(trainer, engine, prompts, reference, _score, config, JS, seed=1).run(first, last, "test")

    whole = _trainer(policy, lr=1e-3)
    metrics = run(whole, 1, 4)
    first = _trainer(policy, lr=1e-3)
    parts = [run(first, 1, 2)]
    first.save_state(tmp_path / "state")
    first.model.save_pretrained(tmp_path / "policy")
    second = _trainer(tmp_path / "policy", lr=1e-3)
    second.load_state(tmp_path / "state")
    parts.append(run(second, 3, 4))

    assert _gap(_weights(whole), _weights(second)) == 0.0
    assert _gap(_weights(whole), _weights(first)) > 1e-4
    assert pl.concat(parts).equals(metrics)

    assert SCHEMAS["metrics"].conform(metrics, "test")["step"].unique().to_list() == [1, 2, 3, 4]
    by_name = {name: metrics.filter(metric=name)["value"].to_list() for name in metrics["metric"].unique()}
    assert all(len(values) == 4 for values in by_name.values())
    assert max(by_name["canary_gap"]) <= config.canary_tolerance
    assert max(by_name["sampler_gap_max"]) <= 1e-3
    assert all(
        0 <= share <= 1 for name in ("reward", "correct", "clip_share", "truncated_share") for share in by_name[name]
    )
    assert by_name["divergence"][0] < by_name["divergence"][-1]
