"""Quantities: cases from the documentation and tests of Kubernetes' resource.Quantity, and round trips."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.quantity import MAX_EXPONENT, Format, Quantity, QuantityError

SI, BIN, EXP = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT
CAP = 2**63 - 1

# text, exact amount, family, canonical form
CASES = [
    ("0", 0, SI, "0"),
    ("0n", 0, SI, "0"),
    ("0u", 0, SI, "0"),
    ("0m", 0, SI, "0"),
    ("0k", 0, SI, "0"),
    ("0Ki", 0, BIN, "0"),
    ("0Mi", 0, BIN, "0"),
    ("0Gi", 0, BIN, "0"),
    ("0Ti", 0, BIN, "0"),
    ("0e5", 0, EXP, "0"),
    ("-0", 0, SI, "0"),
    ("1", 1, SI, "1"),
    ("+1", 1, SI, "1"),
    ("-1", -1, SI, "-1"),
    ("007", 7, SI, "7"),
    # binary
    ("1Ki", 2**10, BIN, "1Ki"),
    ("8Ki", 8 * 2**10, BIN, "8Ki"),
    ("7Mi", 7 * 2**20, BIN, "7Mi"),
    ("6Gi", 6 * 2**30, BIN, "6Gi"),
    ("5Ti", 5 * 2**40, BIN, "5Ti"),
    ("4Pi", 4 * 2**50, BIN, "4Pi"),
    ("3Ei", 3 * 2**60, BIN, "3Ei"),
    ("1024Ki", 2**20, BIN, "1Mi"),
    ("1024Gi", 2**40, BIN, "1Ti"),
    ("1025Ki", 1025 * 2**10, BIN, "1025Ki"),
    ("1.5Gi", 3 * 2**29, BIN, "1536Mi"),
    ("0.5Mi", 2**19, BIN, "512Ki"),
    ("0.05Gi", Fraction(2**30, 20), BIN, "53687091200m"),
    ("100.035Ki", Fraction(10243584, 100), BIN, "102435840m"),
    ("0.5Ki", 512, BIN, "512"),
    ("-0.5Ki", -512, BIN, "-512"),
    ("-2Ki", -2048, BIN, "-2Ki"),
    ("0.025Ti", Fraction(2**40, 40), BIN, "27487790694400m"),
    # decimal
    ("5n", Fraction(5, 10**9), SI, "5n"),
    ("4u", Fraction(4, 10**6), SI, "4u"),
    ("3m", Fraction(3, 1000), SI, "3m"),
    ("8k", 8000, SI, "8k"),
    ("50k", 50_000, SI, "50k"),
    ("7M", 7 * 10**6, SI, "7M"),
    ("6G", 6 * 10**9, SI, "6G"),
    ("5T", 5 * 10**12, SI, "5T"),
    ("300T", 3 * 10**14, SI, "300T"),
    ("2P", 2 * 10**15, SI, "2P"),
    ("1E", 10**18, SI, "1E"),
    ("12E", 12 * 10**18, SI, "12E"),
    ("1000E", 10**21, SI, "1000E"),
    ("1000", 1000, SI, "1k"),
    ("1500", 1500, SI, "1500"),
    ("1000000", 10**6, SI, "1M"),
    ("1024", 1024, SI, "1024"),
    ("1.5", Fraction(3, 2), SI, "1500m"),
    ("0.1", Fraction(1, 10), SI, "100m"),
    ("100m", Fraction(1, 10), SI, "100m"),
    ("1000m", 1, SI, "1"),
    ("1.123", Fraction(1123, 1000), SI, "1123m"),
    ("100.035k", 100_035, SI, "100035"),
    ("7.123456M", 7_123_456, SI, "7123456"),
    ("5.444T", 5444 * 10**9, SI, "5444G"),
    ("300.2T", 3002 * 10**11, SI, "300200G"),
    ("1.01E", 101 * 10**16, SI, "1010P"),
    ("0.0005k", Fraction(1, 2), SI, "500m"),
    ("0.05000", Fraction(5, 100), SI, "50m"),
    ("1000n", Fraction(1, 10**6), SI, "1u"),
    # exponents
    ("1E-3", Fraction(1, 1000), EXP, "1e-3"),
    ("1e3", 1000, EXP, "1e3"),
    ("1E6", 10**6, EXP, "1e6"),
    ("1e14", 10**14, EXP, "100e12"),
    ("1e13", 10**13, EXP, "10e12"),
    ("1.2e3", 1200, EXP, "1200"),
    ("1.3E+6", 1_300_000, EXP, "1300e3"),
    ("0.5e0", Fraction(1, 2), EXP, "500e-3"),
    ("0.5e-1", Fraction(5, 100), EXP, "50e-3"),
    ("1.7E18", 17 * 10**17, EXP, "1700e15"),
    ("1e0", 1, EXP, "1"),
    ("-12e4", -120_000, EXP, "-120e3"),
    ("1e21", 10**21, EXP, "1e21"),
    # rounded up to nano, away from zero
    ("3.001n", Fraction(4, 10**9), SI, "4n"),
    ("0.9n", Fraction(1, 10**9), SI, "1n"),
    ("-0.1n", Fraction(-1, 10**9), SI, "-1n"),
    ("0.0000000001", Fraction(1, 10**9), SI, "1n"),
    ("0.00000012345", Fraction(124, 10**9), SI, "124n"),
    ("1.1E-9", Fraction(2, 10**9), EXP, "2e-9"),
    ("0.5e-9", Fraction(1, 10**9), EXP, "1e-9"),
    ("1e-999999999", Fraction(1, 10**9), EXP, "1e-9"),
    ("0.000000000001Ki", Fraction(2, 10**9), SI, "2n"),
    ("0.0001Ki", Fraction(1024, 10**4), SI, "102400u"),
    # capped, binary only
    ("9Ei", CAP, BIN, str(CAP)),
    ("-9Ei", -CAP, BIN, f"-{CAP}"),
    ("9223372036854775807Ki", CAP, BIN, str(CAP)),
    ("8Ei", CAP, BIN, str(CAP)),
    # odd, but accepted
    (".001", Fraction(1, 1000), SI, "1m"),
    ("1.", 1, SI, "1"),
    ("1.G", 10**9, SI, "1G"),
    (".", 0, SI, "0"),
    ("Mi", 0, BIN, "0"),
    ("-", 0, SI, "0"),
    (" 1 ", 1, SI, "1"),
]


@pytest.mark.parametrize(("text", "amount", "family", "canonical"), CASES, ids=[case[0] for case in CASES])
def test_text_has_amount_family_and_canonical_form(text, amount, family, canonical):
    quantity = Quantity.parse(text)
    assert Fraction(quantity.nanos, 10**9) == amount
    assert quantity.format is family
    assert str(quantity) == canonical


def test_there_are_enough_cases():
    assert len(CASES) >= 80


@pytest.mark.parametrize(
    "text",
    ["", " ", "1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", "1 Gi", "1Gib",
     "1K", "1ki", "1e", "1e+", "1e1.5", "--1", "1m5", "1Ee5", "٣", "0x10", "1_000", "1e5000", f"1e{MAX_EXPONENT + 1}",
     "1e99999999999999999999", "9" * 10_000, "NaN", "inf", "1,5"],
)  # fmt: skip
def test_text_that_is_no_quantity_is_refused(text):
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf"), 10**200])
def test_other_values_are_refused(value):
    with pytest.raises(QuantityError):
        Quantity.parse(value)


@pytest.mark.parametrize(
    ("value", "canonical"),
    [(8, "8"), (-3, "-3"), (1.5, "1500m"), (0.1, "100m"), (2000, "2k"), (1e22, "10e21"), (5e-10, "1e-9")],
)
def test_numbers_of_json_are_read_as_their_text(value, canonical):
    assert str(Quantity.parse(value)) == canonical


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1", 1, 1000),
        ("1.5", 2, 1500),
        ("-1.5", -2, -1500),
        ("1m", 1, 1),
        ("-1m", -1, -1),
        ("0.1m", 1, 1),
        ("1001n", 1, 1),
        ("500m", 1, 500),
        ("1Gi", 2**30, 2**30 * 1000),
        ("1.1Ki", 1127, 1126400),
        ("0", 0, 0),
    ],
)
def test_whole_and_milli_values_round_away_from_zero(text, value, milli):
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli)


def test_scaled_values_round_up():
    assert Quantity.parse("1500m").scaled_value(0) == 2
    assert Quantity.parse("1500m").scaled_value(-3) == 1500
    assert Quantity.parse("1500m").scaled_value(3) == 1
    assert Quantity.parse("1500m").scaled_value(-12) == 1_500_000_000_000


@pytest.mark.parametrize(
    ("first", "second", "total", "difference"),
    [
        ("1Gi", "1G", "2073741824", "73741824"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("0Ki", "100m", "100m", "-100m"),
        ("100m", "0", "100m", "100m"),
        ("1Ki", "1Ki", "2Ki", "0"),
        ("1Ki", "1m", "1024001m", "1023999m"),
        ("1e3", "1k", "2e3", "0"),
        ("900m", "100m", "1", "800m"),
        ("1Mi", "-1Ki", "1023Ki", "1025Ki"),
    ],
)
def test_sums_and_differences_keep_the_first_ones_family_unless_it_is_zero(first, second, total, difference):
    assert str(Quantity.parse(first) + Quantity.parse(second)) == total
    assert str(Quantity.parse(first) - Quantity.parse(second)) == difference


def test_a_sum_over_the_largest_suffix_stays_readable():
    assert str(Quantity.parse("4Ei") * 512) == "2048Ei"


def test_equality_hash_and_order_are_by_amount():
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi") == Quantity.parse("1073741824")
    assert len({Quantity.parse(text) for text in ("1", "1000m", "1e0")}) == 1
    assert Quantity.parse("1G") < Quantity.parse("1Gi") <= Quantity.parse("1024Mi")
    assert Quantity.parse("100m") > Quantity.parse("-1") >= Quantity.parse("-1")
    assert not Quantity.parse("0Gi")
    assert -Quantity.parse("1") == Quantity.parse("-1") == -1 * Quantity.parse("1")
    assert Quantity.parse("1") != 1
    assert Quantity.of(2, Format.BINARY_SI) == Quantity.of_milli(2000)
    assert Quantity.parse("1").is_integer()
    assert not Quantity.parse("1m").is_integer()


quantities = st.builds(
    Quantity, st.integers(min_value=-CAP * 10**9, max_value=CAP * 10**9), st.sampled_from(Format)
)


@given(quantities)
def test_the_canonical_form_is_read_back_as_the_same_amount_and_is_stable(quantity):
    again = Quantity.parse(str(quantity))
    assert again == quantity
    assert str(Quantity.parse(str(again))) == str(again)
    assert "." not in str(quantity)


@given(quantities, quantities)
def test_addition_is_exact_and_undone_by_subtraction(first, second):
    assert (first + second) - second == first
    assert (first + second).nanos == first.nanos + second.nanos


@given(quantities)
def test_rounded_values_are_the_nearest_not_closer_to_zero(quantity):
    exact = Fraction(quantity.nanos, 10**9)
    assert abs(quantity.value()) >= abs(exact)
    assert abs(quantity.value()) - abs(exact) < 1
    assert abs(quantity.milli_value()) - abs(exact * 1000) < 1


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP ", max_size=12))
def test_any_text_is_a_quantity_or_an_error_of_ours(text):
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return
    assert Quantity.parse(str(quantity)) == quantity
