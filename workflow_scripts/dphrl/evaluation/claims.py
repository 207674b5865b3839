"""The claims of arXiv 2509.07430 and of a run, fixed before any run, and their verdicts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dphrl.config.blocks.evaluation import ClaimsConfig, EndpointConfig, Relation, Role
from dphrl.evaluation.interval import LEVEL, Estimate, Floats, Part, holm, sizes_needed
from dphrl.evaluation.methods import phrase
from dphrl.evaluation.names import AGAINST_ITSELF, BASE, BASE_ITSELF, UNTRAINED, average_of, numbered
from dphrl.store.catalogue import SCHEMAS

VERDICTS = SUPPORTED, CONTRADICTED, EQUIVALENT, UNDECIDED = SCHEMAS["claims"].enums["verdict"]
FEWEST_EQUIVALENT = 5
"""Trainings of each method that can be called equivalent."""
# The words of a claim by metric and relation.
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
    "accuracy_bought": {
        "higher": "buys more accuracy for the coverage that it loses than",
        "lower": "buys less accuracy for the coverage that it loses than",
        "equal": "buys as much accuracy for the coverage that it loses as",
    },
    "accuracy_bought_split": {
        "higher": "buys more accuracy for the coverage that it loses, with draws split with the base, than",
        "lower": "buys less accuracy for the coverage that it loses, with draws split with the base, than",
        "equal": "buys as much accuracy for the coverage that it loses, with draws split with the base, as",
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
REGISTERED, DEFAULT = "registered", "default"
# The metric of a claim, and the matching metric of an average over datasets.
_AVERAGED = {PASS: "pass@k", "greedy": "mean"}


_NEAR: tuple[Role, ...] = ("in_domain", "cross_domain")


@dataclass(frozen=True)
class Claim:
    """A claim that `method` is higher than, lower than or equal to `against` in a metric.

    Attributes:
        metric: of the table "comparisons". pass@8 means the largest k up to 8; keep@ and explore@ their only k.
        role: of the datasets. The claim is about their average if this includes the metric (the mean for greedy, the
            paper's k of each dataset for pass@8), else about each dataset.
        source: place in the paper. "control": a claim that the paper's explanation needs; "registered": a primary
            endpoint of the configuration; "default": a model that was made elsewhere may have lost coverage.
        primary: whether Holm's correction is over this claim and the other primary claims.
        dataset, level: the only dataset, and its only level, of the claim; None for all datasets of the role.
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
    paper = []
    for method in ("grpo", "dapo", "rkl"):
        paper += [_claim(method, "higher", "greedy", "base", "in_domain", "Tables 1, 2 and 8")]
        paper += [_claim(method, "lower", PASS, "base", role, "section 1, Tables 1 to 4") for role in _ROLES]
        paper += [_claim(method, "lower", "keep@", BASE_ITSELF, "in_domain", "section 6")]
        paper += [_claim(method, "lower", "distinct_styles", "base", "in_domain", "appendix B")]
    paper += [_claim("rkl", "lower", PASS, "grpo", "out_of_domain", "Table 3")]
    for method in ("dph_f", "dph_js"):
        paper += [_claim(method, "higher", "greedy", "base", "in_domain", "Tables 1, 2 and 8")]
        paper += [_claim(method, "higher", PASS, "base", "in_domain", "abstract, Tables 1 and 2")]
        paper += [_claim(method, "equal", PASS, "base", "out_of_domain", "Table 3")]
        for baseline in ("grpo", "dapo"):
            paper += [_claim(method, "higher", "greedy", baseline, role, "Tables 1, 2 and 8") for role in _NEAR]
            paper += [_claim(method, "higher", PASS, baseline, role, "abstract, Tables 1 to 4") for role in _ROLES]
        paper += [_claim(method, "higher", "keep@", "grpo", "in_domain", "section 6")]
        paper += [_claim(method, "higher", "explore@", "grpo", "in_domain", "section 6")]
        paper += [_claim(method, "higher", "distinct_styles", "grpo", "in_domain", "appendix B")]
        paper += [_claim(method, "higher", PASS, "exp_only", "in_domain", "control")]
    for role in _NEAR:
        paper += [_claim("alpha_0_8", "higher", PASS, "alpha_0_2", role, "Table 1")]
        paper += [_claim("dph_js", "higher", PASS, "js_0_01", role, "Table 1")]
        paper += [_claim("dph_js", "equal", PASS, "js_definition_0_2", role, "appendix E, Table 1")]
    return paper


CLAIMS = tuple(_paper())
"""The claims of the paper, and the control."""


def claims_of_run(endpoints: tuple[EndpointConfig, ...], elsewhere: Collection[str] = ()) -> tuple[Claim, ...]:
    """The claims of a run: its primary endpoints, then the other claims, of which some are primary without endpoints.

    Args:
        elsewhere: models that were made elsewhere. Each gets a claim that it solves fewer questions than the base.
    """
    own = tuple(
        Claim(
            endpoint.method,
            endpoint.relation,
            endpoint.metric,
            endpoint.against,
            None,
            REGISTERED,
            True,
            endpoint.dataset,
            endpoint.level,
        )
        for endpoint in endpoints
    )
    default = [_claim(model, "lower", PASS, "base", "in_domain", DEFAULT) for model in sorted(elsewhere)]
    others = (Claim(**{**vars(claim), "primary": claim.primary and not own}) for claim in (*CLAIMS, *default))
    return (*own, *others)


def claims(
    comparisons: pl.DataFrame,
    levels: pl.DataFrame,
    roles: Mapping[str, str],
    rules: ClaimsConfig,
    elsewhere: Collection[str] = (),
) -> pl.DataFrame:
    """Each claim with its measurement and verdict, primary claims first; without claims about methods not compared.

    A claim of a direction is equivalent where the 90 % interval lies within the margin and methods have five seeds or
    more; else supported (contradicted) where the corrected test finds a difference on (against) the claimed side; else
    undecided. A claim of equality is supported where the corrected two one-sided tests find the difference within
    the margin, contradicted where the 95 % interval lies outside it, else undecided. With fewer than `rules.min_seeds`
    seeds, or where nothing varies, it is undecided.

    Args:
        comparisons, levels: the tables "comparisons" and "comparisons_levels".
        roles: of the datasets.
        rules: how claims are decided, and the primary endpoints.
        elsewhere: models that were made elsewhere.

    Returns:
        The table "claims". `of_trainings` and `of_questions` are the parts of half of the width of the 95 % interval,
        each t times its standard error. `p_corrected` is Holm's over the primary claims, Benjamini and Hochberg's over
        the others.
        `detectable`, for primary or undecided claims, is the smallest difference that the test finds with 80 % power.
        `seeds_needed` (with these questions) and `questions_needed` (with these seeds), for undecided claims, make the
        margin detectable; null where no number is enough.

    Raises:
        ValueError: a primary endpoint of the configuration was not measured.
    """
    rows = []
    for claim in claims_of_run(rules.primary, elsewhere):
        measured = list(_measured(claim, comparisons, levels, roles))
        if not measured and claim.source == REGISTERED:
            _refuse(claim, comparisons if claim.level is None else levels)
        rows += measured
    rows.sort(key=lambda row: not row["primary"])
    for primary, correct in ((True, holm), (False, _benjamini_hochberg)):
        family = [row for row in rows if row["primary"] == primary]
        tests = np.array([_p(row, rules) for row in family], dtype=np.float64)
        for row, p in zip(family, correct(tests), strict=True):
            judge(row, float(p), rules, LEVEL / len(family) if primary else LEVEL)
    return SCHEMAS["claims"].frame([{name: row[name] for name in SCHEMAS["claims"].columns} for row in rows])


def _measured(
    claim: Claim, comparisons: pl.DataFrame, levels: pl.DataFrame, roles: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The rows of a claim: its name, its sentence, its attributes and the numbers of the comparison."""
    # Rates on questions that the base's samples choose stand against those of the base by chance.
    by_chance = claim.against == BASE and claim.metric.startswith(AGAINST_ITSELF)
    of_pair = {"method": claim.method, "against": BASE_ITSELF if by_chance else claim.against}
    pair = comparisons.filter(**of_pair) if claim.level is None else levels.filter(level=claim.level, **of_pair)
    members = [name for name, role in roles.items() if role == claim.role]
    average = [] if claim.role is None else [average_of(claim.role)]
    wanted = [claim.dataset] if claim.dataset is not None else members
    if not pair.filter(pl.col("dataset").is_in(average), metric=_AVERAGED.get(claim.metric, "")).is_empty():
        wanted = average
    for dataset in wanted:
        here = pair.filter(dataset=dataset)
        metric = _metric(claim.metric, here["metric"].to_list())
        for numbers in here.filter(metric=metric).iter_rows(named=True):
            yield {"claim": claim.name, "sentence": claim.sentence, **vars(claim), **numbers}


def _p(row: Mapping[str, Any], rules: ClaimsConfig) -> float | None:
    """p of the two-sided test of a direction, or the larger p of the two one-sided tests of equality."""
    if row["relation"] != "equal" or row["p"] is None:
        return row["p"]
    inside = _margin(row, rules) - abs(row["difference"])
    beyond = _estimate(row).level_of(abs(inside)) / 2.0
    return beyond if inside > 0 else 1.0 - beyond


def _estimate(row: Mapping[str, Any]) -> Estimate:
    """The estimate of a row of "comparisons"."""
    trainings, questions = (
        None if row[f"error_{of}"] is None else Part(row[f"error_{of}"], row[f"freedom_{of}"] or float("nan"))
        for of in ("trainings", "questions")
    )
    return Estimate(row["difference"], trainings, questions or Part(0.0, float("nan")))


def _margin(row: Mapping[str, Any], rules: ClaimsConfig) -> float:
    if row["metric"].startswith("accuracy_bought"):
        return rules.margin_bought
    return rules.margin_counts if row["metric"].startswith("distinct_") else rules.margin


def _refuse(claim: Claim, measured: pl.DataFrame) -> None:
    pair = measured.filter(dataset=claim.dataset, method=claim.method, against=claim.against)
    levels = f" of level {claim.level}" if claim.level is not None else ""
    raise ValueError(
        f"evaluate.claims.primary: {claim.metric} of {claim.method} against {claim.against} on {claim.dataset}{levels}"
        f" was not measured; measured are {', '.join(sorted(set(pair['metric']))) or 'no metrics of this pair there'}"
    )


def _metric(name: str, measured: Sequence[str]) -> str:
    """The metric of a dataset, or of an average, that a claim means."""
    if name in measured:
        return name
    start, at, most = name.partition("@")
    if name == PASS or (at and not most):
        below = [k for k in numbered(measured, f"{start}@") if not most or k <= int(most)]
        if below:
            return f"{start}@{below[-1]}"
    return _AVERAGED.get(name, name)


def judge(row: dict[str, Any], p: float, rules: ClaimsConfig, level: float) -> None:
    """Add the verdict, the detectable difference of a primary claim, and the sizes that decide an undecided claim.

    Args:
        row: primary, relation and the columns of "comparisons".
        p: the corrected p value.
        rules: how claims are decided.
        level: of the test, for the detectable difference.
    """
    margin = _margin(row, rules)
    directed = row["relation"] != "equal"
    row |= {"p_corrected": p if p == p else None, "margin": margin, "verdict": UNDECIDED}
    row |= dict.fromkeys(("of_trainings", "of_questions", "detectable", "seeds_needed", "questions_needed"))
    if row["p"] is None:
        return
    estimate = _estimate(row)
    halves = (None if part is None else part.half(LEVEL) for part in (estimate.trainings, estimate.questions))
    row |= zip(("of_trainings", "of_questions"), halves, strict=True)
    seeds = [row["seeds"], *([] if row["against"] in UNTRAINED else [row["seeds_against"]])]
    if min(seeds) < rules.min_seeds:
        return
    # Two one-sided tests at LEVEL without correction ask whether this interval lies within the margin.
    inside = max(map(abs, estimate.interval(1.0 - 2.0 * LEVEL))) < margin
    low, high = estimate.interval(1.0 - LEVEL)
    # Three trainings that agree hide a fourth that does not: equivalence was false in 12 %.
    if directed and inside and min(seeds) >= FEWEST_EQUIVALENT:
        row["verdict"] = EQUIVALENT
    elif p <= LEVEL:
        claimed = not directed or (estimate.value > 0) == (row["relation"] == "higher")
        row["verdict"] = SUPPORTED if claimed else CONTRADICTED
    elif not directed and (low > margin or high < -margin):
        row["verdict"] = CONTRADICTED
    undecided = row["verdict"] == UNDECIDED
    if undecided or row["primary"]:
        row["detectable"] = estimate.detectable(level)
    if undecided:
        needed = sizes_needed(estimate, row["seeds"], row["questions"], margin, level)
        row |= zip(("seeds_needed", "questions_needed"), needed, strict=True)


def _benjamini_hochberg(p: Floats) -> Floats:
    # Slow to import, and not needed for the other tables.
    from scipy.stats import false_discovery_control

    corrected = np.full_like(p, np.nan)
    tested = ~np.isnan(p)
    corrected[tested] = false_discovery_control(p[tested])
    return corrected
