"""Charts: what a reader sees in them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from services.simulation.core.plots import Line, chart

_SVG = "{http://www.w3.org/2000/svg}"


def _corners(svg: str) -> list[list[tuple[float, float]]]:
    found = ET.fromstring(svg).iter(f"{_SVG}polyline")
    return [
        [(float(x), float(y)) for x, y in (corner.split(",") for corner in one.attrib["points"].split())]
        for one in found
    ]


def test_a_chart_is_a_picture_with_its_title_axes_and_lines_named() -> None:
    svg = chart("Waits <p95>", [Line("ours", [(0, 1), (10, 3)])], x="hours", y="GPUs & more")
    texts = [one.text for one in ET.fromstring(svg).iter(f"{_SVG}text")]
    assert {"Waits <p95>", "hours", "GPUs & more", "ours"} <= set(texts)


def test_larger_values_are_further_right_and_further_up() -> None:
    ((first, last),) = _corners(chart("", [Line("a", [(0, 1), (10, 3)])]))
    assert first[0] < last[0]
    assert first[1] > last[1]


def test_a_step_holds_its_value_until_the_next_point() -> None:
    ((_, corner, last),) = _corners(chart("", [Line("a", [(0, 1), (10, 3)], steps=True)]))
    assert corner[0] == last[0]
    assert corner[1] > last[1]


@pytest.mark.parametrize("points", [[], [(0.0, 0.0)], [(5.0, 7.0)], [(1.0, -3.0), (2.0, -3.0)]])
def test_any_line_can_be_drawn(points: list[tuple[float, float]]) -> None:
    for line in _corners(chart("", [Line("a", points)])):
        assert all(0 <= x <= 800 and 0 <= y <= 400 for x, y in line)


def test_a_long_line_is_drawn_with_as_many_points_as_are_to_be_seen() -> None:
    (line,) = _corners(chart("", [Line("a", [(float(x), 1.0) for x in range(100_000)])]))
    assert len(line) <= 2001
