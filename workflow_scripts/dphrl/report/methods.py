"""The methods that tables, figures and pages name, in reading order. Any other method keeps its name and comes last."""

from collections.abc import Iterable
from itertools import cycle
from typing import Final, NamedTuple

from dphrl.evaluation.names import of_mixture


class Named(NamedTuple):
    """How a method is shown.

    Attributes:
        label: in tables and figures.
        colour: in figures: Okabe and Ito's palette, distinguishable with the common colour vision deficiencies, and
            Paul Tol's for further methods. Grey is the reference.
        phrase: in a sentence; empty: the label.
    """

    label: str
    colour: str
    phrase: str = ""


METHODS: Final = {
    "base": Named("Base", "#5f6672", "the base"),
    "base_itself": Named("Base against itself", "#5f6672", "the base in a second draw"),
    "grpo": Named("GRPO", "#d55e00"),
    "dapo": Named("DAPO", "#e69f00"),
    "rkl": Named("RKL", "#cc79a7"),
    "rkl_k3": Named("RKL, k3 as a loss", "#cc79a7"),
    "rkl_k2": Named("RKL, k2", "#aa4499"),
    "rkl_reward_k1": Named("RKL, k1 in the reward", "#882255"),
    "exp_only": Named("D_exp only", "#8c6d1f", "training on D_exp alone"),
    "alpha": Named("Alpha", "#56b4e9"),
    "alpha_0_2": Named("Alpha 0.2", "#88ccee", "alpha 0.2"),
    "alpha_0_5": Named("Alpha 0.5", "#56b4e9"),
    "alpha_0_8": Named("Alpha 0.8", "#332288", "alpha 0.8"),
    "dph_f": Named("DPH-F", "#0072b2"),
    "dph_js": Named("DPH-JS", "#009e73"),
    "js_0_01": Named("DPH-JS, eta 0.01", "#999933", "DPH-JS with eta 0.01"),
    "js_0_05": Named("DPH-JS, eta 0.05", "#44aa99"),
    "dph_f_published": Named("DPH-F, published weight", "#6699cc"),
    "dph_js_published": Named("DPH-JS, published weight", "#999933"),
    "js_definition": Named("DPH-JS by definition", "#117733"),
    "js_definition_0_01": Named("DPH-JS by definition, eta 0.01", "#882255"),
    "js_definition_0_05": Named("DPH-JS by definition, eta 0.05", "#ddcc77"),
    "js_definition_0_2": Named("DPH-JS by definition, eta 0.2", "#117733", "DPH-JS by definition"),
    "replay": Named("Replay of stored responses", "#661100"),
    "fkl_all": Named("Forward KL, rollouts on all", "#aa4466"),
    "right": Named("DPH-F on all solved", "#88ccee", "DPH-F that rehearses all solved questions"),
    "boundary": Named("DPH-F on the boundary", "#332288"),
    "pkpo": Named("PKPO", "#117733"),
    "maxrl": Named("MaxRL", "#999933"),
    "w_reinforce": Named("W-REINFORCE", "#882255"),
    "ucpo": Named("UCPO", "#e69f00"),
    "alpha_dpg": Named("alpha-DPG", "#44aa99"),
    "clip_higher": Named("GRPO, upper clip 1.28", "#6699cc", "GRPO with the upper clip 1.28"),
    "grpo_t13": Named("GRPO, temperature 1.3", "#e69f00", "GRPO at temperature 1.3"),
}
# Colours of methods that the table does not name.
_FURTHER: Final = ("#44aa99", "#999933", "#332288", "#88ccee", "#661100", "#6699cc", "#ddcc77", "#aa4466")


def in_order(methods: Iterable[str]) -> list[str]:
    """Names of methods without repetition: known methods in the order of the table, then others alphabetically."""
    places = {name: place for place, name in enumerate(METHODS)}

    def place(name: str) -> tuple[int, str]:
        source = (of_mixture(name) or (name,))[0]
        return places.get(source, len(places)), name

    return sorted(set(methods), key=place)


def label(method: str) -> str:
    """Label of a method; a method without one keeps its name."""
    if mixture := of_mixture(method):
        source, share = mixture
        return f"{label(source)}, weights mixed" + ("" if share is None else f": {share} %")
    return METHODS[method].label if method in METHODS else method


def colours(methods: Iterable[str]) -> dict[str, str]:
    """Colour of each method by its name, in reading order; many methods without one in the table share some."""
    ordered, further = in_order(methods), cycle(_FURTHER)
    return {name: METHODS[name].colour if name in METHODS else next(further) for name in ordered}


def phrase(method: str) -> str:
    """A method in a sentence."""
    return METHODS[method].phrase or label(method) if method in METHODS else label(method)
