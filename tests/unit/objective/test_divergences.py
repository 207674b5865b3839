"""Every divergence against vectors computed with 40 digits, autograd, and its limits.

A divergence that is added needs one line in FORMS; all properties below then hold it too.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dphrl.objective import divergence
from dphrl.objective.divergences import Divergence

F32, F64 = torch.float32, torch.float64
POINTS = [-2.0, -0.5, 0.0, 0.5, 2.0]
EXTREMES = [-1e4, -200.0, -104.0, -20.0, 0.0, 1e-6, -1e-6, 20.0, 89.0, 200.0, 1e4]


class Form(NamedTuple):
    """A divergence; f in u, plainly; f and g at POINTS, printed to 8 digits; (c, k) of f = c l^2 (1 + k l) near 0."""

    divergence: Divergence
    plain: Callable[[Tensor], Tensor]
    f: list[float]
    g: list[float]
    near_zero: tuple[float, float] | None = None

    @property
    def side(self) -> int:
        """Where f grows exponentially: towards +inf on samples of the reference, -inf on those of the policy."""
        return 1 if self.divergence.samples == "reference" else -1


def _alpha(a: float, f: list[float], g: list[float]) -> Form:
    def plain(u: Tensor) -> Tensor:
        return (u ** (1 - a) - (1 - a) * u - a) / (a * (a - 1))

    return Form(divergence("alpha", alpha=a), plain, f, g, (1 / 2, (2 - a) / 3))


def _js(u: Tensor) -> Tensor:
    return u * u.log() - (u + 1) * ((u + 1) / 2).log()


def _k3(r: Tensor) -> Tensor:
    return r - 1 - r.log()


def _score_function(u: Tensor) -> Tensor:
    """Value ln(2u/(1+u)), derivative by ln u the weight of the exact gradient less its constant."""
    value = (2 * u / (1 + u)).log()
    weight = value + 1 / (1 + u) - 1 / 2
    return value.detach() + weight.detach() * (u.log() - u.log().detach())


FORMS: dict[str, Form] = {
    "forward_kl k1": Form(
        divergence("forward_kl", estimator="k1"),
        lambda u: -u.log(),
        [2.00000000, 0.50000000, 0, -0.50000000, -2.00000000],
        [-1.0] * 5,
    ),
    "forward_kl k3": Form(
        divergence("forward_kl"),
        _k3,
        [1.13533528, 0.10653066, 0, 0.14872127, 4.38905610],
        [-0.86466472, -0.39346934, 0, 0.64872127, 6.38905610],
        (1 / 2, 1 / 3),
    ),
    "js": Form(
        divergence("js"),
        _js,
        [0.37217803, 0.04867766, 0, 0.08025589, 2.75004438],
        [-0.19404113, -0.17039254, 0, 0.36118569, 4.18382521],
        (1 / 4, 1 / 2),
    ),
    "js/2": Form(
        divergence("js", js_scale=0.5),
        lambda u: _js(u) / 2,
        [0.18608902, 0.02433883, 0, 0.04012794, 1.37502219],
        [-0.09702057, -0.08519627, 0, 0.18059285, 2.09191260],
        (1 / 8, 1 / 2),
    ),
    "alpha 0.2": _alpha(
        0.2,
        [0.66482318, 0.09315301, 0, 0.16970199, 7.23882784],
        [-0.33280617, -0.31894693, 0, 0.78448287, 12.18011837],
    ),
    "alpha 0.5": _alpha(
        0.5,
        [0.79915280, 0.09785819, 0, 0.16134087, 5.90498488],
        [-0.46508832, -0.34454025, 0, 0.72939171, 9.34154854],
    ),
    "alpha 0.8": _alpha(
        0.8,
        [0.97966882, 0.10292946, 0, 0.15358335, 4.91241576],
        [-0.66873095, -0.37288345, 0, 0.67943794, 7.37153925],
    ),
    "reverse_kl on reference samples": Form(
        divergence("reverse_kl", samples="reference"),
        lambda u: u * u.log() - u + 1,
        [0.59399415, 0.09020401, 0, 0.17563936, 8.38905610],
        [-0.27067057, -0.30326533, 0, 0.82436064, 14.77811220],
        (1 / 2, 2 / 3),
    ),
    "reverse_kl k2": Form(
        divergence("reverse_kl", estimator="k2"),
        lambda u: u.log().square() / 2,
        [2.00000000, 0.12500000, 0, 0.12500000, 2.00000000],
        POINTS,
        (1 / 2, 0),
    ),
    "reverse_kl k3": Form(
        divergence("reverse_kl"),
        lambda u: _k3(1 / u),
        [4.38905610, 0.14872127, 0, 0.10653066, 1.13533528],
        [-6.38905610, -0.64872127, 0, 0.39346934, 0.86466472],
        (1 / 2, -1 / 3),
    ),
    "js_definition, reference k1": Form(
        divergence("js_definition", estimator="k1"),
        lambda u: -((1 + u) / 2).log(),
        [0.56621917, 0.21907020, 0, -0.28092980, -1.43378083],
        [-0.11920292, -0.37754067, -0.5, -0.62245933, -0.88079708],
    ),
    "js_definition, reference k3": Form(
        divergence("js_definition"),
        lambda u: _k3((1 + u) / 2),
        [0.13388681, 0.02233553, 0, 0.04343083, 1.76074722],
        [-0.05153528, -0.07427534, 0, 0.20190130, 2.81373097],
        (1 / 8, 2 / 3),
    ),
    "js_definition, policy k3": Form(
        divergence("js_definition", samples="policy"),
        lambda u: _k3((1 + 1 / u) / 2),
        [1.76074722, 0.04343083, 0, 0.02233553, 0.13388681],
        [-2.81373097, -0.20190130, 0, 0.07427534, 0.05153528],
        (1 / 8, -2 / 3),
    ),
    "js_definition, policy exact": Form(
        divergence("js_definition", samples="policy", estimator="exact"),
        _score_function,
        [-1.43378083, -0.28092980, 0, 0.21907020, 0.56621917],
        [-1.05298375, -0.15847047, 0, 0.09661087, 0.18542209],
    ),
}
CAPPED = [name for name, form in FORMS.items() if form.divergence.l_cap is not None]
# Those whose f is never negative and pulls towards the reference from both sides.
WITH_MINIMUM = [name for name, form in FORMS.items() if form.near_zero is not None]
log_ratios = st.floats(-1e4, 1e4, width=32)


def _leaf(values: list[float], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def _autograd(form: Divergence, log_ratio: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(form.value(log_ratio).sum(), log_ratio)
    return gradient


@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-8), (F32, 1e-5)])
@pytest.mark.parametrize("name", FORMS)
def test_vectors(name: str, dtype: torch.dtype, tolerance: float) -> None:
    form, log_ratio = FORMS[name], _leaf(POINTS, dtype)
    found = form.divergence.value(log_ratio)
    assert found.dtype == dtype
    torch.testing.assert_close(found, torch.tensor(form.f, dtype=dtype), atol=tolerance, rtol=0)
    gradients = torch.tensor(form.g, dtype=dtype)
    torch.testing.assert_close(form.divergence.gradient(log_ratio.detach()), gradients, atol=tolerance, rtol=0)
    torch.testing.assert_close(_autograd(form.divergence, log_ratio), gradients, atol=tolerance, rtol=0)
    # Equal policies have no divergence, not a small one.
    assert found[2] == 0
    assert name.endswith("k1") or form.divergence.gradient(log_ratio.detach())[2] == 0


@pytest.mark.parametrize("name", FORMS)
def test_value_and_gradient_are_those_of_the_plain_formula(name: str) -> None:
    """Autograd through the formula in u, which is exact enough where nothing overflows."""
    form = FORMS[name]
    log_ratio = (torch.linspace(-10, 3, 131, dtype=F64) * form.side).requires_grad_()
    value = form.plain(log_ratio.exp())
    (gradient,) = torch.autograd.grad(value.sum(), log_ratio)
    # The formula of alpha divides a difference of size 1 by a (1 - a).
    torch.testing.assert_close(form.divergence.value(log_ratio), value, atol=1e-12, rtol=1e-11)
    torch.testing.assert_close(form.divergence.gradient(log_ratio.detach()), gradient, atol=1e-12, rtol=1e-11)
    assert torch.equal(_autograd(form.divergence, log_ratio), form.divergence.gradient(log_ratio.detach()))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", FORMS)
def test_extremes_are_finite(name: str, dtype: torch.dtype) -> None:
    form, log_ratio = FORMS[name].divergence, _leaf(EXTREMES, dtype)
    for found in (form.value(log_ratio), form.gradient(log_ratio.detach()), _autograd(form, log_ratio)):
        assert found.isfinite().all()
        assert found.dtype == dtype


@pytest.mark.parametrize("name", WITH_MINIMUM)
@settings(max_examples=50)
@given(log_ratio=log_ratios)
def test_never_negative_and_pulled_towards_the_reference(name: str, log_ratio: float) -> None:
    form = FORMS[name].divergence
    for dtype in (F32, F64):
        at = torch.tensor([log_ratio], dtype=dtype)
        # Where f itself is below float64's resolution of terms of size l.
        assert form.value(at).item() >= -4 * torch.finfo(F64).eps * min(1.0, abs(log_ratio))
        assert form.gradient(at).item() * log_ratio >= 0


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", WITH_MINIMUM)
def test_digits_are_kept_near_zero(name: str, dtype: torch.dtype) -> None:
    """Closed forms in float32 are wrong by percents at 1e-3 and negative at 1e-4."""
    form = FORMS[name]
    assert form.near_zero is not None
    c, k = form.near_zero
    small = torch.tensor([s * x for x in (1e-5, 1e-4, 1e-3) for s in (1, -1)], dtype=dtype)
    exact = c * small.double().square() * (1 + k * small.double())
    torch.testing.assert_close(form.divergence.value(small).double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", CAPPED)
def test_beyond_the_cap_the_value_goes_on_in_a_straight_line(name: str, dtype: torch.dtype) -> None:
    form, side = FORMS[name], FORMS[name].side
    cap = torch.tensor([3.0 * side], dtype=F64, requires_grad=True)
    (plain_slope,) = torch.autograd.grad(form.plain(cap.exp()).sum(), cap)
    slope = plain_slope.item()
    around = torch.tensor([2.999, 3.0, 3.001, 10.0, 1e4], dtype=dtype) * side
    value, gradient = form.divergence.value(around), form.divergence.gradient(around)
    assert gradient[1:].tolist() == [gradient[1].item()] * 4
    assert gradient[1].item() == pytest.approx(slope, rel=1e-6)
    assert value[3].item() == pytest.approx(value[1].item() + 7 * slope * side, rel=1e-6)
    assert value[4].item() == pytest.approx(value[1].item() + 9997 * slope * side, rel=1e-6)
    # Neither the value nor the slope jumps.
    assert (value[2] - value[0]).item() == pytest.approx(0.002 * slope * side, rel=2e-3)
    assert gradient[0].item() == pytest.approx(slope, rel=2e-3)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_limits_where_the_policy_lost_the_token(dtype: torch.dtype) -> None:
    far = torch.tensor([-1e4, -200.0], dtype=dtype)
    assert FORMS["forward_kl k1"].divergence.value(far).tolist() == [1e4, 200.0]
    assert FORMS["forward_kl k3"].divergence.value(far).tolist() == [1e4 - 1, 199.0]
    assert FORMS["forward_kl k3"].divergence.gradient(far).tolist() == [-1.0, -1.0]
    for name, limit in (("js", math.log(2)), ("alpha 0.2", 1 / 0.8), ("reverse_kl on reference samples", 1.0)):
        torch.testing.assert_close(FORMS[name].divergence.value(far), torch.full_like(far, limit))
        assert FORMS[name].divergence.gradient(far).abs().max() < 1e-30


def test_the_cap_is_an_option_on_either_side() -> None:
    at = torch.tensor([1.0, 4.0], dtype=F64)
    early = divergence("forward_kl", l_cap=1.0)
    assert early.gradient(at).tolist() == pytest.approx([math.expm1(1.0)] * 2)
    assert early.value(at).tolist() == pytest.approx([math.e - 2, math.e - 2 + 3 * math.expm1(1.0)])
    mirrored = divergence("reverse_kl", l_cap=1.0)
    assert mirrored.value(-at).tolist() == early.value(at).tolist()
    assert mirrored.gradient(-at).tolist() == (-early.gradient(at)).tolist()


@settings(max_examples=50)
@given(
    alpha=st.floats(1e-12, 1 - 1e-12),
    log_ratio=st.one_of(st.floats(-30, -1e-8), st.floats(1e-8, 3)),
)
def test_alpha_is_exact_near_both_limits(alpha: float, log_ratio: float) -> None:
    with mpmath.workdps(60):
        a, x = mpmath.mpf(alpha), mpmath.mpf(log_ratio)
        u = mpmath.exp(x)
        f = (u ** (1 - a) - (1 - a) * u - a) / (a * (a - 1))
        g = (u - u ** (1 - a)) / a
        expected = [float(f), float(g)]
    form, at = divergence("alpha", alpha=alpha), torch.tensor([log_ratio], dtype=F64)
    found = [form.value(at).item(), form.gradient(at).item()]
    # A difference of terms of size l: what float64 can hold of them.
    assert found[0] == pytest.approx(expected[0], rel=1e-12, abs=4e-16 * min(1.0, abs(log_ratio)))
    assert found[1] == pytest.approx(expected[1], rel=1e-12)


def test_alpha_at_its_limits_is_forward_and_reverse_kl() -> None:
    at = torch.linspace(-12, 9, 211, dtype=F64)
    for alpha, limit in ((1.0, FORMS["forward_kl k3"]), (0.0, FORMS["reverse_kl on reference samples"])):
        form = divergence("alpha", alpha=alpha)
        torch.testing.assert_close(form.value(at), limit.divergence.value(at), rtol=1e-14, atol=1e-15)
        torch.testing.assert_close(form.gradient(at), limit.divergence.gradient(at), rtol=1e-14, atol=0)


def test_bfloat16_is_computed_and_returned_in_float32() -> None:
    at = torch.tensor([0.01, -0.3, 200.0], dtype=torch.bfloat16, requires_grad=True)
    for form in FORMS.values():
        value = form.divergence.value(at)
        assert value.dtype == F32
        assert torch.equal(value, form.divergence.value(at.float()))
        assert torch.equal(form.divergence.gradient(at), form.divergence.gradient(at.float()))
        assert _autograd(form.divergence, at).dtype == torch.bfloat16


def test_no_tokens_have_no_values() -> None:
    for form in FORMS.values():
        assert form.divergence.value(torch.zeros(0)).shape == (0,)


def test_the_incoming_gradient_is_passed_on() -> None:
    log_ratio = _leaf([0.5, -2.0], F64)
    value = FORMS["forward_kl k3"].divergence.value(log_ratio)
    (found,) = torch.autograd.grad((value * torch.tensor([3.0, -0.5])).sum(), log_ratio)
    assert found.tolist() == pytest.approx([3 * 0.64872127, 0.5 * 0.86466472], abs=1e-8)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_a_log_ratio_that_is_no_number_is_an_error_that_names_its_place(odd: float) -> None:
    form, log_ratio = divergence("js"), torch.zeros(3, 4)
    log_ratio[1, 2] = log_ratio[2, 0] = odd
    for computed in (form.value, form.gradient):
        with pytest.raises(ValueError, match=rf"\[1, 2\] is {odd}"):
            computed(log_ratio)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("kl", {}, "'kl', known: forward_kl, js"),
        ("forward_kl", {"estimator": "k2"}, "forward_kl .* not 'k2'"),
        ("forward_kl", {"l_cap": 0.0}, "l_cap .* got 0.0"),
        ("js", {"l_cap": 80.0}, "l_cap .* got 80.0"),
        ("js", {"alpha": 0.5}, "alpha"),
        ("alpha", {"alpha": 1.5}, "alpha .* got 1.5"),
        ("reverse_kl", {"estimator": "k1"}, "reverse_kl k1 .* use k2"),
        ("reverse_kl", {"samples": "reference", "estimator": "k2"}, "reverse_kl .* not reference/k2"),
        ("js_definition", {"samples": "policy", "estimator": "k1"}, "js_definition k1 .* k3 or exact"),
        ("js_definition", {"samples": "reference", "estimator": "exact"}, "js_definition .* not reference/exact"),
    ],
)
def test_an_unknown_form_or_option_is_an_error_that_names_it(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        divergence(name, **options)
