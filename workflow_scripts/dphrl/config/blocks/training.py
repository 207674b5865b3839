"""The blocks `policy`, `partition`, `reference`, `train` and `methods`: from the base model to trained policies."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StringConstraints

from dphrl.config.blocks.base import Beta, Block, Count, Dtype, Positive, Share, Text, Whole


class PartitionConfig(Block):
    """Configuration of the block `partition` (arXiv 2509.07430, section 4 and appendix F)."""

    pef_min_correct: Count = Field(
        8, description="Minimum number of correct pre-samples of a candidate for D_pef (paper: 8 of 8 for SQL)."
    )
    on_reject: Literal["explore", "discard"] = Field(
        "explore", description="Wrong refinement sample: explore moves the candidate to D_exp, discard drops it."
    )
    drop_all_wrong: bool = Field(False, description="Drop prompts without a correct pre-sample (paper: for maths).")
    allow_empty: bool = Field(
        False,
        description="Go on where no answer was found in most pre-samples, or where a method has no question to roll "
        "out or to rehearse. Else the run stops before anything is trained.",
    )
    given: dict[Literal["pef", "exp"], str] = Field(
        {},
        description="A division made elsewhere, in place of one by pre-samples: two files (.jsonl, .json, .parquet) of "
        "rows of the training set, or of rows {prompt_id} or {source_index}. Questions in neither file are dropped. "
        "Nothing is pre-sampled then, unless train.probe.prompts is above 0.",
        examples=[{"pef": "data/train_correct.jsonl", "exp": "data/train_wrong.jsonl"}],
    )


class ReferenceConfig(Block):
    """Configuration of the block `reference`."""

    topk_logprobs: Whole = Field(
        0,
        description="Number of most probable tokens per position whose reference log-probabilities are stored, in "
        "addition to the sampled token's, for methods with `topk_estimator`; 0: none.",
    )


class ProbeConfig(Block):
    """Configuration of `train.probe`: a fixed sample of prompts that the policy answers while it is trained."""

    every: Count = Field(52, description="Steps between two measurements; the first is before any update.")
    prompts: Whole = Field(64, description="Prompts of D_pef and as many of D_exp; 0: nothing is measured.")
    samples: Count = Field(4, description="Answers per prompt, drawn like the rollouts.")
    gradient: bool = Field(
        False,
        description="Also measure how much of the gradient is the divergence's. Needs memory for two more gradients, "
        "and a zero_stage below 3.",
    )


class StopConfig(Block):
    """Configuration of `train.stop`: what ends a training before its last step."""

    coverage_below: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="0.1 ends a training once its rollouts have lost 10 points of coverage: the mean of coverage_gap "
        "over 8 steps plus twice its error is below -0.1 (docs/method.md). Later steps keep these weights. null: off.",
    )


class TrainConfig(Block):
    """Configuration of the block `train` (defaults: arXiv 2509.07430, Table 7, Llama on SQL)."""

    seeds: list[Whole] = Field([1], min_length=1, description="Seeds of data order and rollouts, one training each.")
    draws: Literal["per_seed", "shared"] = Field(
        "per_seed",
        description="A draw is a set of pre-samples, partition and stored responses. per_seed: one draw for each "
        "training seed, which all methods share; the first of `seeds` uses the draw of the run's seed. Intervals then "
        "hold this chance too. shared: one draw for all seeds, where pre-sampling is too expensive. Recorded answers "
        "of the base are always shared.",
    )
    steps: Count = Field(
        208, description="Training steps of methods without `steps`; a larger number continues a finished training."
    )
    segment_steps: Count = Field(26, description="Steps per job, which a crash can cost at most. Divides eval_every.")
    eval_every: Count | tuple[Count, ...] = Field(
        52,
        description="Steps between two policies that are saved and evaluated, a divisor of steps; or the steps "
        "themselves, such as [8, 16, 40]. The last step is always one.",
    )
    keep_state: Literal["newest", "all"] = Field(
        "newest",
        description="newest: an optimizer state, or a policy that is not evaluated, is removed when the segment after "
        "the next one starts and at the end of a run; all: none is removed, so any segment can be run again by itself.",
    )
    prompts_per_step: Count = Field(128, description="Prompts with rollouts per step.")
    rollouts_per_prompt: int = Field(16, ge=2, description="Rollouts per prompt: the group of the advantages.")
    rehearsal_per_step: Count = Field(256, description="Stored responses per step, for methods that rehearse.")
    ppo_epochs: Count = Field(1, description="Passes over the rollouts of a step.")
    mini_batches: Count = Field(2, description="Updates per pass. Divides prompts_per_step and rehearsal_per_step.")
    temperature: Positive = Field(1.0, description="Sampling temperature of the rollouts.")
    top_p: Share = Field(1.0, description="Nucleus; below 1 (paper: 0.95) rollouts are not samples of the policy.")
    max_tokens: Count = Field(4096, description="Maximum length of a rollout in tokens.")
    lr: Positive = Field(1e-6, description="Learning rate of AdamW, constant after the warm-up.")
    warmup_steps: Whole = Field(0, description="Steps of linear warm-up of the learning rate.")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="Decay rates of AdamW's two moments.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay of AdamW.")
    clip_grad_norm: Positive = Field(1.0, description="Maximum norm of the gradient of an update.")
    eps_low: float = Field(0.2, gt=0, lt=1, description="Lower clip of the policy ratio is 1 - eps_low.")
    dual_clip: float | None = Field(
        3.0, gt=1, description="Dual clip: largest loss of a token with negative advantage, per |advantage|; null: off."
    )
    tis_cap: float | None = Field(
        None,
        gt=0,
        description="Truncated importance sampling, which corrects for the mismatch between engine and trainer: a "
        "token's policy loss is weighted by min(pi_old / pi_sampler, tis_cap). Needs top_p 1 and temperature 1. null: "
        "the mismatch is only measured.",
    )
    dtype: Dtype = Field("bfloat16", description="Precision of the forward and backward pass.")
    rehearsal_norm: Literal["joint", "separate", "tokens"] = Field(
        "joint",
        description="joint: one mean over all sequences of a mini-batch, so the effective weight of rehearsal is eta "
        "* N_pef / N_exp (as published); separate: one mean for each part, so the weight is eta; tokens: one mean over "
        "all response tokens, so the weight is eta * T_pef / T_exp.",
    )
    probe: ProbeConfig = Field(ProbeConfig(), description="Measurements on D_pef and D_exp during training.")
    stop: StopConfig = Field(StopConfig(), description="An end of a training before its last step.")
    trackers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = Field(
        (), description="Live trackers of metrics, in addition to the parquet table; each needs its Python package."
    )

    def evaluated(self, steps: int) -> list[int]:
        """The steps of a training of so many steps whose policies are saved and evaluated, ascending."""
        every = self.eval_every
        chosen = range(every, steps, every) if isinstance(every, int) else every
        return sorted({steps, *(step for step in chosen if step < steps)})


DivergenceName = Literal["forward_kl", "js", "alpha", "js_definition", "reverse_kl"]
Rehearsed = Literal["pef", "right", "boundary"]
Estimator = Literal["k3", "k1", "k2", "exact", "reward_k1", "to_go"]
# A function of the user, in place of a name. It takes the keys of a divergence on stored responses.
OWN = "FILE.py:NAME"
DIVERGENCES = (*get_args(DivergenceName), OWN)
REHEARSED = tuple(name for name in DIVERGENCES if name != "reverse_kl")


def _paper_eta(data: dict[str, Any]) -> float:
    chosen = data.get("divergence")
    return 0.0 if chosen is None else 0.2 if chosen in ("js", "js_definition") else 0.01


AdvantageNeed = Literal["base", "logprobs", "reference", "programs"]
OwnFunction = Annotated[str, StringConstraints(pattern=r"^.+\.py:[A-Za-z_]\w*$")]


class LoraConfig(Block):
    """Low-rank adapters (arXiv 2106.09685): only they are trained, and they are merged into the saved policy."""

    rank: Count = Field(16, description="Rank of the adapters.")
    alpha: Count = Field(32, description="Scale: the adapters' product is multiplied by alpha / rank.")
    targets: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Names of the linear layers that get adapters.",
    )


class MethodConfig(Block):
    """Configuration of one entry of the block `methods` (defaults: arXiv 2509.07430, Table 6)."""

    rollout_on: Literal["all", "exp"] = Field(
        "exp", description="Rollout prompts: all (the training set) or exp (D_exp)."
    )
    divergence: DivergenceName | OwnFunction | None = Field(
        None,
        description="Divergence from the reference. forward_kl, js and alpha use stored responses (`rehearse`); "
        "js_definition uses them for one half and the rollouts for the other; reverse_kl uses the rollouts. The last "
        "two keep the base model in memory. FILE.py:NAME: a function of log-ratios, used on stored responses "
        "(docs/how-to/own-divergence.md). null: none.",
        examples=["mine.py:hellinger"],
    )
    estimator: Estimator = Field(
        "k3",
        description="Estimator, per token, with u = pi / pi_ref. forward_kl: k3 = u - 1 - ln u (minimal at u = 1) or "
        "k1 = -ln u. reverse_kl: k3 as a loss, as published (its expected gradient belongs to the forward KL), k2 as a "
        "loss (its expected gradient belongs to the reverse KL), both with the states held fixed; or in the advantage, "
        "less its mean over the group's other responses, for the reverse KL of whole responses: reward_k1 (k1 of the "
        "response) or to_go (k1 from the token on). js_definition, for its half on the rollouts: k3 or exact.",
    )
    off_policy: Literal["weight", "differentiate"] | None = Field(
        None,
        description="Correct a divergence's loss on rollouts for samples of pi_old, with rho = pi / pi_old per token. "
        "weight: rho as a constant factor, for reverse_kl k3 and k2 and for js_definition: keeps the estimator's "
        "direction. differentiate: the gradient passes through rho too, for reverse_kl k3, which then descends the "
        "reverse KL. null: none.",
    )
    off_policy_cap: float | None = Field(
        None, gt=0, description="Largest rho of off_policy; capping biases it (metric off_policy_capped). null: none."
    )
    rehearse: Rehearsed = Field(
        "pef",
        description="Questions whose stored responses the divergence uses. pef: D_pef. right: every question with a "
        "right pre-sample. boundary: questions with 1 to n - 1 right of n pre-samples. Those of D_exp among them are "
        "rolled out too.",
    )
    rows_per_question: int = Field(
        1,
        ge=1,
        le=8,
        description="Most stored responses of a question: the right refinement sample of a question of D_pef first, "
        "then right pre-samples. Questions count alike, whatever their numbers of responses (docs/method.md).",
    )
    topk_estimator: Literal["sum", "conditional"] | None = Field(
        None,
        description="Use the reference's top-K log-probabilities (reference.topk_logprobs) of stored responses. sum: "
        "exact over the K tokens, plus the sampled token if it is another; conditional: the mean over the K tokens if "
        "the sampled one is among them, never of higher variance than that token alone; null: the sampled token only.",
    )
    js_scale: Positive = Field(1.0, description="Factor of js: 1.0 sums its two KL divergences, 0.5 averages them.")
    alpha: float = Field(0.5, ge=0, le=1, description="Order: 1 is forward KL, 0 is reverse KL on reference samples.")
    js_beta: Literal["auto"] | Annotated[float, Field(ge=0)] = Field(
        "auto",
        description="Weight of js_definition's rollout half in units of eta; auto: both halves weigh alike (with "
        "rehearsal_norm separate 1, joint N_pef / N_exp, tokens T_pef / T_exp of the batch).",
    )
    eta: float = Field(
        default_factory=_paper_eta,
        ge=0,
        description="Weight of the divergence (see train.rehearsal_norm). Default: js, js_definition 0.2, others 0.01.",
        examples=[0.01],
    )
    eps_high: Positive = Field(
        0.28, description="Upper clip of the policy ratio is 1 + eps_high (paper: 0.28, and 0.2 for GRPO)."
    )
    l_cap: float = Field(
        3.0, gt=0, le=50, description="Log-ratio beyond which the divergence is linear, so that it stays finite."
    )
    advantage_std: bool = Field(
        True, description="Divide advantages by the group's standard deviation; false: Dr. GRPO (arXiv 2503.20783)."
    )
    advantage: OwnFunction | None = Field(
        None,
        description="FILE.py:NAME: a function from a group of rollouts to their advantages "
        "(docs/how-to/own-divergence.md). null: reward less the group's mean, and `advantage_std`.",
        examples=["examples/remedies.py:pkpo"],
    )
    advantage_settings: dict[Text, bool | int | float | str] = Field(
        {}, description="Keyword arguments of the function `advantage`, such as {k: 4}."
    )
    advantage_needs: tuple[AdvantageNeed, ...] = Field(
        (),
        description="What the function gets in addition: base (right and all pre-samples of the question), logprobs "
        "(of each response under the policy that drew it, by the trainer), reference (the same under the base, which "
        "stays in memory), programs (classes of programs).",
    )
    dynamic_sampling_rounds: Whole = Field(
        0,
        description="Dynamic sampling (DAPO): rounds of a step that replace the prompts whose rewards are all equal by "
        "new ones; without partial credit they are all right or all wrong. 0: it keeps them.",
    )
    overlong_buffer: Whole = Field(
        0, description="Soft overlong punishment (DAPO): last tokens over which the reward falls to -1; 0: none."
    )
    steps: Count | None = Field(
        None,
        description="Training steps of this method, a multiple of train.segment_steps; its last step is evaluated in "
        "addition to the steps of train.eval_every. null: train.steps.",
    )
    seeds: Count | None = Field(
        None,
        description="Train with the first N of train.seeds, null: with all. Methods whose trainings differ more need "
        "more seeds.",
    )
    lora: LoraConfig | None = Field(None, description="Train low-rank adapters; null: train all weights.")

    @property
    def form(self) -> str | None:
        """The name of the divergence, the same for all functions of a user."""
        return OWN if self.divergence and ".py:" in self.divergence else self.divergence

    @property
    def functions(self) -> dict[str, str]:
        """The user's functions, FILE.py:NAME, by key."""
        places = {"divergence": self.divergence if self.form == OWN else None, "advantage": self.advantage}
        return {key: place for key, place in places.items() if place}

    @property
    def files(self) -> list[str]:
        """The files of the user's functions, each once."""
        return list(dict.fromkeys(place.rpartition(":")[0] for place in self.functions.values()))

    @property
    def rehearses(self) -> bool:
        """Whether it trains on stored responses."""
        return self.form in REHEARSED

    @property
    def stored(self) -> str:
        """The name in paths of the set of stored responses that `rehearse` and `rows_per_question` describe."""
        of_d_pef = (self.rehearse, self.rows_per_question) == ("pef", 1)
        return "reference" if of_d_pef else f"reference-{self.rehearse}{self.rows_per_question}"

    @property
    def stores_presamples(self) -> bool:
        """Whether pre-samples are among the stored responses that it trains on."""
        return self.rehearses and self.stored != "reference"

    @property
    def needs_draw(self) -> bool:
        """Whether its training depends on the partition or on stored responses."""
        return self.rollout_on == "exp" or self.rehearses or "base" in self.advantage_needs

    @property
    def in_advantage(self) -> bool:
        """Whether the divergence is part of the advantages of the policy loss."""
        return self.estimator in ("reward_k1", "to_go")

    @property
    def needs_reference_model(self) -> bool:
        """Whether the base model computes log-probabilities of the rollouts."""
        return self.divergence in ("js_definition", "reverse_kl") or "reference" in self.advantage_needs

    @property
    def needs_base(self) -> bool:
        """Whether a segment needs the base model in addition to the previous policy."""
        return self.needs_reference_model or self.lora is not None


PAPER_METHODS = {
    "grpo": MethodConfig(rollout_on="all", eps_high=0.2),
    "dapo": MethodConfig(rollout_on="all", dynamic_sampling_rounds=3),
    "rkl": MethodConfig(rollout_on="all", divergence="reverse_kl"),
    "exp_only": MethodConfig(rollout_on="exp"),
    "dph_f": MethodConfig(rollout_on="exp", divergence="forward_kl"),
    "dph_js": MethodConfig(rollout_on="exp", divergence="js"),
}
