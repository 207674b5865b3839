"""vLLM does what every engine must do, and the canary notices what no push delivered, in bfloat16 too."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_suite import (
    CHECKS,
    MAX_MODEL_LEN,
    Policy,
    a_turn_and_a_stop_text_end_a_response,
    requests,
    tied_embeddings_are_pushed_whole,
)
from runs import ROOT
from tiny_models import write_tiny_policy
from tiny_training import Deaf

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.policy.batch import Row
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import load_model
from dphrl.policy.vllm_engine import drop_shared_memory
from dphrl.training.canary import Canary, StaleWeightsError, WeightSync
from dphrl.training.loss import Example
from dphrl.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_rank")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return Policy.write(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def engine(policy: Policy, made: list[Engine]) -> Engine:
    made.append(policy.engine("vllm", distributed=True))
    return made[-1]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_every_engine_does(check: Callable[[Policy, Engine], None], policy: Policy, engine: Engine) -> None:
    check(policy, engine)


STOPS = ("c", "8m")


@pytest.fixture(scope="module")
def tied(made: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, Engine]:
    """A policy with tied embeddings and a chat template, and an engine of it with stop texts."""
    policy = Policy.with_template(tmp_path_factory.mktemp("tied"), tie_word_embeddings=True)
    made.append(policy.engine("vllm", distributed=True, stop=STOPS))
    return policy, made[-1]


def test_a_turn_and_stop_texts_end_responses_in_both_engines_alike(tied: tuple[Policy, Engine]) -> None:
    policy, engine = tied
    a_turn_and_a_stop_text_end_a_response(policy, engine, STOPS)
    asked = requests(60, temperature=0.0)
    ours, theirs = policy.engine("transformers", stop=STOPS).generate(asked), engine.generate(asked)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.token_ids, a.text, a.finish_reason) == (b.token_ids, b.text, b.finish_reason)


def test_tokens_texts_and_log_probs_are_those_of_vllm_with_its_own_settings(policy: Policy, engine: Engine) -> None:
    """Its texts are decoded token by token, and its log-probs come position by position."""
    from vllm import SamplingParams, TokensPrompt

    asked = requests(60)
    params = [
        SamplingParams(
            temperature=one.temperature,
            top_p=one.top_p,
            max_tokens=one.max_tokens,
            seed=one.seed,
            stop_token_ids=sorted(policy.ends),
            logprobs=0,
        )
        for one in asked
    ]
    prompts = [TokensPrompt(prompt_token_ids=list(one.prompt_token_ids)) for one in asked]
    outputs = engine._llm.generate(prompts, params, use_tqdm=False)  # type: ignore[attr-defined]
    for ours, (theirs,) in zip(engine.generate(asked), (output.outputs for output in outputs), strict=True):
        tokens = list(theirs.token_ids)
        logprobs = [entry[token].logprob for entry, token in zip(theirs.logprobs, tokens, strict=True)]
        assert (ours.token_ids, ours.text, ours.finish_reason) == (tokens, theirs.text, theirs.finish_reason)
        assert ours.logprobs == logprobs


def test_tied_embeddings_are_pushed_whole(tied: tuple[Policy, Engine]) -> None:
    tied_embeddings_are_pushed_whole(*tied)


@pytest.mark.parametrize("name", ["vllm", "transformers"])
def test_in_bfloat16_the_bound_is_three_times_the_mismatch_at_the_start_or_a_floor(
    policy: Policy, made: list[Engine], name: str
) -> None:
    config = EngineConfig(name=name, dtype="bfloat16", max_model_len=MAX_MODEL_LEN)
    hardware = HardwareConfig(kv_cache_gib=0.1)
    engine = make_engine(policy.folder, config, hardware, distributed=True)
    made.append(engine)
    train = TrainConfig(steps=1, segment_steps=1, eval_every=1, mini_batches=1, dtype="bfloat16")
    trainer = Trainer(load_model(policy.folder, "bfloat16"), train, hardware, MethodConfig())
    text = [3 + i * i % 50 for i in range(MAX_MODEL_LEN - 1)]
    canary = Canary.of([text], "bfloat16", MAX_MODEL_LEN)
    mismatch = canary.gap(canary.of_trainer(trainer), canary.of_engine(engine))

    sync = WeightSync(trainer, engine, None, [text])
    assert sync.tolerance == pytest.approx(max(3 * mismatch, 1e-4))
    assert sync.tolerance < 0.3
    control = sync.control()
    assert control > sync.tolerance == pytest.approx(max(3 * mismatch, 1e-4, control / 200))
    assert sync.push(1) <= sync.tolerance

    # An update too small for the log-probs to show that it did not arrive.
    trainer.update([Example(Row(text[:9], text[9:20]), advantage=1.0)], 1e-4)
    deaf = WeightSync(trainer, Deaf(engine), 0.5, [text])  # type: ignore[arg-type]
    with pytest.raises(StaleWeightsError, match=r"step 2: .* tensors are not the trainer's, \S+ for one"):
        deaf.push(2)
    with pytest.raises(StaleWeightsError, match=r"positive control: perturbed weights were pushed"):
        deaf.control()
    engine.sleep()
    assert sync.push(2) <= sync.tolerance


def test_shared_memory_of_other_trainings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a port: as vLLM names it itself."""
    monkeypatch.setenv("MASTER_PORT", "1")  # of no process of a user
    names = ("1-tp:0-[0]-cpushm_0", "1-tp:0-[0-1]-cpushm_0", "11-tp:0-[0]-cpushm_0", "-tp:0-[0]-cpushm_0", "1-other")
    files = [Path("/dev/shm", name) for name in names]
    for file in files:
        file.touch()
    drop_shared_memory(1)
    left = [file.name for file in files if file.exists()]
    for file in files:
        file.unlink(missing_ok=True)
    assert left == [*names[1:]]


@pytest.mark.full
def test_an_engine_reads_nothing_that_another_user_could_have_put_there_and_leaves_nothing(tmp_path: Path) -> None:
    """Compiled code is read from a private folder, pickles too; the folder of temporary files is empty afterwards."""
    policy, temporary = tmp_path / "policy", tmp_path / "temporary"
    temporary.mkdir()
    write_tiny_policy(policy).save_pretrained(policy, max_shard_size="80kB")
    (policy / "model.safetensors").unlink()
    # Not in the index; vLLM would prefer such a file.
    (policy / "consolidated.safetensors").write_text("")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/watched_engine.py"), str(policy)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "workflow_scripts"), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    read = json.loads(done.stdout.splitlines()[-1])
    assert read["elsewhere"] == []
    assert [*temporary.iterdir()] == []
    # The check sees what it is for: code that Inductor compiled is loaded.
    assert any("/TORCHINDUCTOR_CACHE_DIR/" in file for file in read["private"])
