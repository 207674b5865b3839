"""What arXiv 2509.07430 claims, as comparisons that a run can make, fixed here before any run."""

from dataclasses import dataclass

from dphrl.config.blocks.evaluation import EndpointConfig, Relation, Role
from dphrl.evaluation.names import BASE_ITSELF
from dphrl.layout.methods import phrase

# The metric named, with what a claim says of it: higher, lower, equal.
_WORDS: dict[str, dict[Relation, str]] = {
    "greedy": {
        "higher": "answers more questions right, greedily, than",
        "lower": "answers fewer questions right, greedily, than",
        "equal": "answers as many questions right, greedily, as",
    },
    "keep@": {
        "higher": "keeps more of what the base solved than",
        "lower": "keeps less of what the base solved than",
        "equal": "keeps as much of what the base solved as",
    },
    "explore@": {
        "higher": "solves more of what the base did not than",
        "lower": "solves less of what the base did not than",
        "equal": "solves as much of what the base did not as",
    },
    "distinct_styles": {
        "higher": "shows more styles per question than",
        "lower": "shows fewer styles per question than",
        "equal": "shows as many styles per question as",
    },
}
_OTHER: dict[Relation, str] = {
    "higher": "has a higher {} than",
    "lower": "has a lower {} than",
    "equal": "has the same {} as",
}
_ROLES: dict[Role, str] = {
    "in_domain": "in domain",
    "cross_domain": "on another benchmark of the task",
    "out_of_domain": "on other tasks",
}
_VARIANTS = {
    "js_0_01": "DPH-JS with eta 0.01",
    "js_definition_0_2": "DPH-JS by definition",
    "alpha_0_2": "alpha 0.2",
    "alpha_0_8": "alpha 0.8",
}
PASS = "pass@8"
REGISTERED = "registered"


_NEAR: tuple[Role, ...] = ("in_domain", "cross_domain")


@dataclass(frozen=True)
class Claim:
    """A claim that `method` is higher than, lower than or equal to `against` in a metric.

    Attributes:
        metric: of the table "comparisons". pass@8 means the largest k up to 8; keep@ and explore@ their only k.
        role: of the datasets that are asked: their average where there are several and it has the metric (the mean for
            greedy, the paper's k of each dataset for pass@8), else each of them.
        source: where the paper says it; "control": what its explanation needs, and "registered": a primary endpoint of
            the configuration.
        primary: whether Holm's correction is over this claim and the other primary ones.
        dataset, level: the only dataset, and its only level, that are asked; None for those of the role.
    """

    method: str
    relation: Relation
    metric: str
    against: str
    role: Role | None
    source: str
    primary: bool = False
    dataset: str | None = None
    level: str | None = None

    @property
    def name(self) -> str:
        """Unique among the claims of a run."""
        where = self.role or "_".join(part for part in (self.dataset, self.level) if part)
        metric = self.metric.rstrip("@").replace(" ", "_")
        return f"{self.method}_{self.relation}_{metric}_{self.against}_{where}"

    @property
    def sentence(self) -> str:
        """The claim in words."""
        metric = "pass@k" if self.metric == PASS and self.source != REGISTERED else self.metric
        words = _WORDS.get(self.metric, _OTHER)
        where = _ROLES[self.role] if self.role else f"on {self.dataset}" + (f", {self.level}" if self.level else "")
        ours, theirs = (_VARIANTS.get(name) or phrase(name) for name in (self.method, self.against))
        return f"{ours[0].upper()}{ours[1:]} {words[self.relation].format(metric)} {theirs}, {where}."


def _claim(method: str, relation: Relation, metric: str, against: str, role: Role, source: str) -> Claim:
    primary = metric == PASS and role == "in_domain"
    return Claim(method, relation, metric, against, role, source, primary)


def _paper() -> list[Claim]:
    found = []
    for method in ("grpo", "dapo", "rkl"):
        found += [_claim(method, "higher", "greedy", "base", "in_domain", "Tables 1, 2 and 8")]
        found += [_claim(method, "lower", PASS, "base", role, "section 1, Tables 1 to 4") for role in _ROLES]
        found += [_claim(method, "lower", "keep@", BASE_ITSELF, "in_domain", "section 6")]
        found += [_claim(method, "lower", "distinct_styles", "base", "in_domain", "appendix B")]
    found += [_claim("rkl", "lower", PASS, "grpo", "out_of_domain", "Table 3")]
    for method in ("dph_f", "dph_js"):
        found += [_claim(method, "higher", "greedy", "base", "in_domain", "Tables 1, 2 and 8")]
        found += [_claim(method, "higher", PASS, "base", "in_domain", "abstract, Tables 1 and 2")]
        found += [_claim(method, "equal", PASS, "base", "out_of_domain", "Table 3")]
        for baseline in ("grpo", "dapo"):
            found += [_claim(method, "higher", "greedy", baseline, role, "Tables 1, 2 and 8") for role in _NEAR]
            found += [_claim(method, "higher", PASS, baseline, role, "abstract, Tables 1 to 4") for role in _ROLES]
        found += [_claim(method, "higher", "keep@", "grpo", "in_domain", "section 6")]
        found += [_claim(method, "higher", "explore@", "grpo", "in_domain", "section 6")]
        found += [_claim(method, "higher", "distinct_styles", "grpo", "in_domain", "appendix B")]
        found += [_claim(method, "higher", PASS, "exp_only", "in_domain", "control")]
    for role in _NEAR:
        found += [_claim("alpha_0_8", "higher", PASS, "alpha_0_2", role, "Table 1")]
        found += [_claim("dph_js", "higher", PASS, "js_0_01", role, "Table 1")]
        found += [_claim("dph_js", "equal", PASS, "js_definition_0_2", role, "appendix E, Table 1")]
    return found


CLAIMS = tuple(_paper())
"""The claims of the paper, and the control."""

NOT_BORNE_OUT = {
    ("rkl_lower_pass@8_base_in_domain", "llama-sql"): (69.80, 68.80),
    ("dph_f_higher_pass@8_base_in_domain", "llama-math"): (54.44, 55.06),
    ("dph_js_higher_pass@8_base_in_domain", "llama-math"): (54.23, 55.06),
    ("grpo_lower_pass@8_base_in_domain", "qwen-math"): (67.71, 65.39),
    ("dapo_lower_pass@8_base_in_domain", "qwen-math"): (67.97, 65.39),
    ("rkl_lower_pass@8_base_in_domain", "qwen-math"): (68.01, 65.39),
    ("dph_f_higher_greedy_grpo_in_domain", "qwen-math"): (41.39, 41.43),
    ("dph_f_higher_greedy_dapo_in_domain", "qwen-math"): (41.39, 41.70),
}
"""Claims that a table of the paper contradicts: by name and published setting, its numbers in per cent."""


def registered(endpoints: tuple[EndpointConfig, ...]) -> tuple[Claim, ...]:
    """The claims of a run: its primary endpoints, then the paper's, which are primary only where it has none."""
    own = tuple(
        Claim(one.method, one.relation, one.measured, one.against, None, REGISTERED, True, one.dataset, one.level)
        for one in endpoints
    )
    paper = (Claim(**{**vars(claim), "primary": claim.primary and not own}) for claim in CLAIMS)
    return (*own, *paper)
