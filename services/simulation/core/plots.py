"""Line charts as SVG: a text that any browser and any Markdown viewer shows.

So few lines do that a plotting library would be by far the largest dependency of the distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final
from xml.sax.saxutils import escape

Point = tuple[float, float]

_COLOURS: Final = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#db2777", "#4b5563")
_MOST_POINTS: Final = 2000
"""Points drawn of a line: more than a screen has columns of pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_TICKS: Final = 6
_LETTER: Final = 7
"""Width of a letter of the legend."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line by its points in order of x. ``steps``: a value holds until the next point."""

    name: str
    points: Sequence[Point]
    steps: bool = False


def chart(
    title: str, lines: Sequence[Line], *, x: str = "", y: str = "", width: int = 800, height: int = 400
) -> str:
    """Return an SVG document; ``x`` and ``y`` are the axes' names with their units."""
    drawn = [Line(line.name, _thinned(line.points), line.steps) for line in lines]
    frame = _Frame(drawn, width, height)
    body = [
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(width / 2, 22, title, size=15),
        *frame.grid(),
        _text(width / 2, height - 10, x),
        _text(16, height / 2, y, turned=True),
        *(frame.path(line, _COLOURS[at % len(_COLOURS)]) for at, line in enumerate(drawn)),
        *_legend(drawn, width),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, *body, "</svg>", ""])


class _Frame:
    """From values to places in the picture."""

    def __init__(self, lines: Sequence[Line], width: int, height: int) -> None:
        xs = [point[0] for line in lines for point in line.points]
        ys = [point[1] for line in lines for point in line.points]
        self._x = _scale(min(xs, default=0.0), max(xs, default=1.0))
        self._y = _scale(min(0.0, *ys) if ys else 0.0, max(ys, default=1.0))
        self._width, self._height = width, height

    def grid(self) -> Iterable[str]:
        """Yield the axes' lines and numbers."""
        for value in _ticks(self._x):
            at = self._at_x(value)
            yield _rule(at, _TOP, at, self._height - _BOTTOM)
            yield _text(at, self._height - _BOTTOM + 16, _number(value))
        for value in _ticks(self._y):
            at = self._at_y(value)
            yield _rule(_LEFT, at, self._width - _RIGHT, at)
            yield _text(_LEFT - 6, at + 4, _number(value), anchor="end")

    def path(self, line: Line, colour: str) -> str:
        """Return a line of the chart."""
        corners: list[str] = []
        before: Point | None = None
        for point in line.points:
            if line.steps and before is not None:
                corners.append(self._corner((point[0], before[1])))
            corners.append(self._corner(point))
            before = point
        return f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{" ".join(corners)}"/>'

    def _corner(self, point: Point) -> str:
        return f"{self._at_x(point[0]):.1f},{self._at_y(point[1]):.1f}"

    def _at_x(self, value: float) -> float:
        low, high, _ = self._x
        return _LEFT + (value - low) / (high - low) * (self._width - _LEFT - _RIGHT)

    def _at_y(self, value: float) -> float:
        low, high, _ = self._y
        return self._height - _BOTTOM - (value - low) / (high - low) * (self._height - _TOP - _BOTTOM)


def _scale(low: float, high: float) -> tuple[float, float, float]:
    """Return round ends that enclose the values, and the distance of the ticks between them."""
    span = high - low if high > low else abs(high) or 1.0
    power: float = 10.0 ** floor(log10(span / _TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * _TICKS >= span)
    top = ceil(high / step) * step
    bottom = floor(low / step) * step
    return bottom, top if top > bottom else bottom + step, step


def _ticks(scale: tuple[float, float, float]) -> Iterable[float]:
    low, high, step = scale
    return (low + number * step for number in range(round((high - low) / step) + 1))


def _thinned(points: Sequence[Point]) -> Sequence[Point]:
    """Return at most so many points as are to be seen, the last one included."""
    every = -(-len(points) // _MOST_POINTS)
    return points if every <= 1 else [*points[::every], points[-1]]


def _legend(lines: Sequence[Line], width: int) -> Iterable[str]:
    right = width - _RIGHT
    for number, line in reversed(list(enumerate(lines))):
        right -= 24 + _LETTER * len(line.name)
        yield _rule(right, 36, right + 14, 36, _COLOURS[number % len(_COLOURS)], thick=3)
        yield _text(right + 18, 40, line.name, anchor="start")


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str = "#e5e7eb", *, thick: int = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{thick}"/>'
    )


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "middle", turned: bool = False
) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{turn}>{escape(text)}</text>'
    )


def _number(value: float) -> str:
    return f"{value:.10g}" if abs(value) < 1e4 else f"{value:,.0f}"  # noqa: PLR2004 - with separators
