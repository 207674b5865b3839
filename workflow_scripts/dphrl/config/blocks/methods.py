"""The block `methods`: the prompts and the loss of each method."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.blocks.base import Block, Count, Positive, Whole

DivergenceName = Literal["forward_kl", "js", "alpha", "js_definition", "reverse_kl"]
Estimator = Literal["k3", "k1", "k2", "exact", "reward_k1", "to_go"]
PAPER_ETA = {"forward_kl": 0.01, "js": 0.2, "alpha": 0.01, "js_definition": 0.2, "reverse_kl": 0.01}
ESTIMATORS: dict[str, tuple[Estimator, ...]] = {
    "forward_kl": ("k3", "k1"),
    "js_definition": ("k3", "exact"),
    "reverse_kl": ("k3", "k2", "reward_k1", "to_go"),
}
# What each form of `off_policy` corrects: the losses on rollouts, by divergence and estimator.
OFF_POLICY = {
    "weight": {("reverse_kl", "k3"), ("reverse_kl", "k2"), ("js_definition", "k3"), ("js_definition", "exact")},
    "differentiate": {("reverse_kl", "k3")},
}
ALL = tuple(PAPER_ETA)
REHEARSED = tuple(name for name in ALL if name != "reverse_kl")
NEEDS = {
    "estimator": tuple(ESTIMATORS),
    "js_scale": ("js",),
    "alpha": ("alpha",),
    "js_beta": ("js_definition",),
    "off_policy": ("reverse_kl", "js_definition"),
    "topk_estimator": REHEARSED,
    "eta": ALL,
    "l_cap": ALL,
}


def _paper_eta(data: dict[str, Any]) -> float:
    return PAPER_ETA.get(data.get("divergence") or "", 0.0)


class LoraConfig(Block):
    """Low-rank adapters (arXiv 2106.09685): only they are trained; the saved policy has them merged."""

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
    divergence: DivergenceName | None = Field(
        None,
        description="Divergence from the reference. forward_kl, js and alpha use the stored responses of D_pef; "
        "js_definition uses them for one half and the rollouts for the other; reverse_kl uses the rollouts. The last "
        "two keep the base model in memory. null: none.",
    )
    estimator: Estimator = Field(
        "k3",
        description="Estimator, per token, with u = pi / pi_ref. forward_kl: k3 = u - 1 - ln u (minimal at u = 1) or "
        "k1 = -ln u. reverse_kl: k3 as a loss, as published (its expected gradient is that of the forward KL), k2 as "
        "a loss (that of the reverse KL), both with the states held fixed; or in the advantage, less its mean over the "
        "group's other responses, for the reverse KL of whole responses: reward_k1 (k1 of the response) or to_go (k1 "
        "from the token on). js_definition, for its half on the rollouts: k3 or exact.",
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
    topk_estimator: Literal["sum", "conditional"] | None = Field(
        None,
        description="Use the reference's top-K log-probabilities (reference.topk_logprobs) on D_pef. sum: exact over "
        "the K tokens, plus the sampled token if it is another; conditional: the mean over the K tokens if the sampled "
        "one is among them, never of higher variance than that token alone; null: the sampled token only.",
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
    dynamic_sampling_rounds: Whole = Field(
        0,
        description="Dynamic sampling (DAPO): rounds of a step that replace the prompts whose responses are all "
        "correct or all wrong by new ones; 0: it keeps them.",
    )
    overlong_buffer: Whole = Field(
        0, description="Soft overlong punishment (DAPO): last tokens over which the reward falls to -1; 0: none."
    )
    steps: Count | None = Field(
        None,
        description="Training steps of this method, a multiple of train.segment_steps; its last step is evaluated in "
        "addition to those of train.eval_every. null: train.steps.",
    )
    seeds: Count | None = Field(
        None,
        description="Train with the first N of train.seeds, null: with all. Methods whose trainings differ more need "
        "more of them.",
    )
    lora: LoraConfig | None = Field(None, description="Train low-rank adapters; null: train all weights.")

    @model_validator(mode="after")
    def _every_key_has_an_effect(self) -> Self:
        chosen, fields = self.divergence or "null", type(self).model_fields
        for key, names in NEEDS.items():
            default = 0.0 if key == "eta" else fields[key].default
            if chosen not in names and getattr(self, key) != default:
                text = f"no such key here: it has an effect only with divergence {' or '.join(names)}, not {chosen}"
                raise PydanticCustomError("key_without_effect", "{text}", {"key": key, "text": text})
        known = ESTIMATORS.get(chosen, ("k3",))
        if self.estimator not in known:
            text = f"one of {', '.join(known)} for divergence {chosen}"
            raise PydanticCustomError("key_without_effect", "{text}", {"key": "estimator", "text": text})
        if self.off_policy and (chosen, self.estimator) not in OFF_POLICY[self.off_policy]:
            forms = " or ".join(" ".join(form) for form in sorted(OFF_POLICY[self.off_policy]))
            text = f"null: {self.off_policy} is for {forms}, not {chosen} {self.estimator}"
            raise PydanticCustomError("key_without_effect", "{text}", {"key": "off_policy", "text": text})
        if self.off_policy_cap is not None and self.off_policy is None:
            text = "null, or with off_policy: it caps its rho"
            raise PydanticCustomError("key_without_effect", "{text}", {"key": "off_policy_cap", "text": text})
        return self

    @property
    def rehearses(self) -> bool:
        """Whether it trains on the stored responses of D_pef."""
        return self.divergence in REHEARSED

    @property
    def needs_draw(self) -> bool:
        """Whether its training depends on the partition or on stored responses."""
        return self.rollout_on == "exp" or self.rehearses

    @property
    def in_advantage(self) -> bool:
        """Whether the divergence is part of the advantages of the policy loss."""
        return self.estimator in ("reward_k1", "to_go")

    @property
    def curvature(self) -> float:
        """f''(1): near l = 0 the divergence (each half of js_definition) acts as weight * f''(1) / 2 * l^2."""
        return {"js": self.js_scale / 2, "js_definition": 0.25}.get(self.divergence or "", 1.0)

    @property
    def needs_reference_model(self) -> bool:
        """Whether the base model computes log-probabilities of the rollouts."""
        return self.divergence in ("js_definition", "reverse_kl")

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
