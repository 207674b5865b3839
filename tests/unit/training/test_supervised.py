"""The supervised start: its loss by hand, rows in each layout, and a training that was interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from tiny_models import EOS, TOKENS, write_tiny_policy
from transformers import AutoModelForCausalLM, AutoTokenizer

from dphrl.config.blocks.policy import SupervisedConfig
from dphrl.data.records import SourceError
from dphrl.store.parquet import write_table
from dphrl.training.supervised import Start, batch_indices, supervised_start, train_supervised

ROWS = [{"prompt": f"Q {letter}\nA ", "response": letter * (1 + i % 3)} for i, letter in enumerate("abcdefghij")]
SETTINGS = SupervisedConfig(
    source="rows.jsonl", steps=6, batch=4, lr=1e-2, warmup=2, dtype="float32", token_budget=30, threads=1
)
TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] + ':' + message.content + '<eos>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a:' }}{% endif %}"
)


pytestmark = pytest.mark.usefixtures("denormals")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    write_tiny_policy(folder)
    return folder


def start_of(policy: Path, template: str = "plain", rows: list[dict[str, Any]] | None = None, **changes: Any) -> Start:
    return supervised_start(policy, rows or ROWS, template, SETTINGS.model_copy(update=changes))


def trained(policy: Path, states: Path, key: str = "key", **changes: Any) -> tuple[Start, pl.DataFrame, list[int]]:
    """The start after its training, the table, and what the progress was told; the state is written at each step."""
    start, seen = start_of(policy), []
    table = train_supervised(start, SETTINGS.model_copy(update=changes), states, key, seen.append, 0.0)
    return start, table, seen


def weights(start: Start) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in start.model.state_dict().items()}


def assert_equal(left: Start, right: Start) -> None:
    ours, other = weights(left), weights(right)
    assert ours.keys() == other.keys()
    assert all(torch.equal(ours[name], other[name]) for name in ours)


def text(ids: Any) -> str:
    return "".join(TOKENS[token] for token in ids)


def test_the_loss_is_the_mean_over_response_tokens_alone(policy: Path, tmp_path: Path) -> None:
    """The first step's loss and gradient, from whole rows one by one and all of the model's logits."""
    start = start_of(policy)
    model = AutoModelForCausalLM.from_pretrained(policy)
    batch = [start.rows[index] for index in batch_indices(len(ROWS), 4, SETTINGS.seed, 0)]
    total = torch.zeros(())
    for row in batch:
        logprobs = model(torch.tensor([[*row.prompt, *row.response]])).logits[0].log_softmax(-1)
        total = total - sum(logprobs[len(row.prompt) - 1 + i, token] for i, token in enumerate(row.response))
    tokens = sum(len(row.response) for row in batch)
    loss = total / tokens
    loss.backward()
    norm = torch.sqrt(sum((p.grad**2).sum() for p in model.parameters() if p.grad is not None))
    table = train_supervised(start, SETTINGS, tmp_path, "", lambda steps: None)
    first = table.row(0, named=True)
    assert (first["step"], first["tokens"]) == (1, tokens)
    assert first["lr"] == 5e-3
    assert first["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert first["gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)


def test_the_model_learns_the_responses_and_their_end(policy: Path, tmp_path: Path) -> None:
    start, table, seen = trained(policy, tmp_path / "states", steps=60, lr=5e-3)
    assert table["loss"][-1] < 0.1 < table["loss"][0]
    assert seen == list(range(61))
    write_table(table, "supervised", tmp_path / "supervised.parquet", {})
    start.save(tmp_path / "out")
    model, tokenizer = (kind.from_pretrained(tmp_path / "out") for kind in (AutoModelForCausalLM, AutoTokenizer))
    prompt = torch.tensor([tokenizer("Q c\nA ")["input_ids"]])
    drawn = model.generate(prompt, max_new_tokens=6, do_sample=False)[0, prompt.shape[1] :]
    assert text(drawn) == "ccc<eos>"


def test_bfloat16_products_leave_weights_in_float32(policy: Path, tmp_path: Path) -> None:
    start, table, _ = trained(policy, tmp_path, dtype="bfloat16")
    _, exact, _ = trained(policy, tmp_path / "float32")
    assert {tensor.dtype for tensor in weights(start).values()} == {torch.float32}
    assert table["loss"].to_list() == pytest.approx(exact["loss"].to_list(), rel=0.05)
    assert table["loss"].to_list() != exact["loss"].to_list()


def test_an_interrupted_training_ends_in_the_same_bytes(policy: Path, tmp_path: Path) -> None:
    step = 4
    whole, curve, _ = trained(policy, tmp_path / "whole")

    class KilledError(Exception):
        pass

    def kill(done: int) -> None:
        if done == step + 1:  # the state of this step is not written yet
            raise KilledError

    with pytest.raises(KilledError):
        train_supervised(start_of(policy), SETTINGS, tmp_path / "killed", "key", kill, 0.0)
    resumed, table, seen = trained(policy, tmp_path / "killed")
    assert seen == list(range(step, 7))
    assert_equal(resumed, whole)
    assert table.equals(curve)


@pytest.mark.parametrize("damage", ["other key", "cut"])
def test_a_state_that_does_not_fit_is_not_used(policy: Path, tmp_path: Path, damage: str) -> None:
    whole, _, _ = trained(policy, tmp_path / "states", "old" if damage == "other key" else "key")
    [state] = (tmp_path / "states").iterdir()
    if damage == "cut":
        state.write_bytes(state.read_bytes()[:-100])
    again, _, seen = trained(policy, tmp_path / "states")
    assert seen[0] == 0
    assert_equal(again, whole)


def test_prompts_and_responses_are_as_in_sampling(policy: Path, tmp_path: Path) -> None:
    """Of three layouts of a row; by the chat template a response ends as a turn does."""
    chat = tmp_path / "chat"
    write_tiny_policy(chat)
    tokenizer = AutoTokenizer.from_pretrained(chat)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(chat)
    user, answer = {"role": "user", "content": "q"}, {"role": "assistant", "content": "bb"}
    layouts: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
        ([{"prompt": "q", "response": "bb"}], {}),
        ([{"messages": [user, answer]}], {}),
        ([{"asked": "q", "query": "bb"}], {"fields": {"question": "asked"}, "response": "query"}),
    ]
    for rows, changes in layouts:
        before = json.dumps(rows)
        [row] = start_of(chat, "chat", rows, **changes).rows
        assert text(row.prompt) == "u:q<eos>a:"
        assert text(row.response) == "bb<eos>"
        assert json.dumps(rows) == before
    [row] = start_of(chat, "chat", layouts[0][0], instruction="i").rows
    assert text(row.prompt) == "s:i<eos>u:q<eos>a:"
    [row] = start_of(policy, "plain", layouts[0][0]).rows
    assert (text(row.prompt), row.response) == ("q", [*row.response[:-1], EOS])


def test_long_rows_are_left_out_and_counted(policy: Path) -> None:
    longest = max(row.length for row in start_of(policy).rows)
    start = start_of(policy, max_tokens=longest - 1)
    assert start.left_out == sum(len(row["response"]) == 3 for row in ROWS)
    assert len(start.rows) + start.left_out == len(ROWS)
    with pytest.raises(SourceError, match=r"rows.jsonl: none of 10 rows has at most 3 tokens"):
        start_of(policy, max_tokens=3)


USER, ASSISTANT = ({"role": role, "content": "bb"} for role in ("user", "assistant"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "q"}, "expected a prompt and its response.*policy.supervised"),
        ({"prompt": "q", "response": " "}, "expected a prompt and its response"),
        ({"messages": [USER]}, "expected a prompt and its response"),
        ({"messages": [USER, ASSISTANT], "response": "bb"}, "expected either response or a last message of the"),
    ],
)
def test_a_row_without_exactly_one_response_is_named(policy: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(SourceError, match=rf"rows\.jsonl, row 1: {message}"):
        start_of(policy, rows=[ROWS[0], row])


def test_dropout_is_off_and_a_parameter_without_gradient_has_no_state(tmp_path: Path) -> None:
    """Such a base trains twice to the same bytes, and goes on from a state."""
    write_tiny_policy(tmp_path / "dropout", attention_dropout=0.5)
    runs = []
    for name in ("one", "two"):
        start = start_of(tmp_path / "dropout")
        start.model.model.layers[0].unused = torch.nn.Linear(2, 2)
        torch.manual_seed(len(runs))
        torch.nn.init.zeros_(start.model.model.layers[0].unused.weight)
        torch.nn.init.zeros_(start.model.model.layers[0].unused.bias)
        runs.append(train_supervised(start, SETTINGS, tmp_path / name, "key", lambda steps: None, 0.0))
    assert runs[0].equals(runs[1])


def test_a_step_that_diverges_stops_with_the_key_to_change(policy: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"update \d+ has a gradient that is not finite; set a lower lr"):
        trained(policy, tmp_path, lr=1e30, warmup=0, steps=20)


def test_a_step_is_the_next_slice_of_permutations_of_the_rows() -> None:
    steps = [batch_indices(rows=10, batch=4, seed=1, step=step) for step in range(5)]
    order = [index for step in steps for index in step]
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert order[:10] != order[10:]
    assert batch_indices(rows=10, batch=4, seed=1, step=3) == steps[3]
    assert batch_indices(rows=10, batch=4, seed=2, step=0) != steps[0]
