"""The methods that are compared: what each trains on, and with which loss."""

from typing import Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from dphrl.config.block import Block

DivergenceName = Literal["forward_kl", "js"]
PAPER_ETA = {"forward_kl": 0.01, "js": 0.2}
NEEDS = {"estimator": ("forward_kl",), "js_scale": ("js",), "eta": ("forward_kl", "js"), "l_cap": ("forward_kl", "js")}


def _paper_eta(data: dict[str, Any]) -> float:
    return PAPER_ETA.get(data.get("divergence") or "", 0.0)


class MethodConfig(Block):
    """Configuration of one entry of the block `methods` (defaults: arXiv 2509.07430, Table 6)."""

    online: Literal["all", "exp"] = Field(
        "exp", description="Prompts that are rolled out and rewarded: the whole training set, or D_exp only."
    )
    divergence: DivergenceName | None = Field(
        None, description="Divergence from the reference on the stored responses of D_pef; null: no rehearsal."
    )
    estimator: Literal["k3", "k1"] = Field(
        "k3", description="Per-token form of forward_kl: k3 = u - 1 - ln u (its minimum is at u = 1), k1 = -ln u."
    )
    js_scale: float = Field(
        1.0,
        gt=0,
        description="Factor of js: 1.0 = KL to the mixture from both sides added, 0.5 = their mean (textbook).",
    )
    eta: float = Field(
        default_factory=_paper_eta,
        ge=0,
        description="Weight of the divergence (see train.rehearsal_norm). Default: 0.01 for forward_kl, 0.2 for js.",
    )
    eps_high: float = Field(
        0.28, gt=0, description="Upper clip of the policy ratio is 1 + eps_high (paper: 0.28, and 0.2 for GRPO)."
    )
    l_cap: float = Field(
        3.0, gt=0, description="Log-ratio beyond which the divergence goes on linearly, so that it stays finite."
    )

    @model_validator(mode="after")
    def _no_key_without_effect(self) -> Self:
        plain = type(self).model_fields
        for key, names in NEEDS.items():
            default = 0.0 if key == "eta" else plain[key].default
            if self.divergence not in names and getattr(self, key) != default:
                raise PydanticCustomError(
                    "key_without_effect",
                    "no such key here: it has an effect only with divergence {names}, not {divergence}",
                    {"key": key, "names": " or ".join(names), "divergence": self.divergence or "null"},
                )
        return self


PAPER_METHODS = {
    "grpo": MethodConfig(online="all", eps_high=0.2),
    "exp_only": MethodConfig(online="exp"),
    "dph_f": MethodConfig(online="exp", divergence="forward_kl"),
    "dph_js": MethodConfig(online="exp", divergence="js"),
}
