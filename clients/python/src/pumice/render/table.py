"""Tables as values: aligned columns for a pipe, ``rich`` on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.render.text import STYLES

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Table:
    """Column titles and rows of text. An empty cell is shown as ``-`` so that columns can be cut."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def lines(self) -> list[str]:
        """Return the title and the rows as aligned text, without spaces at line ends."""
        cells = [self.columns, *(tuple(cell or "-" for cell in row) for row in self.rows)]
        widths = [max(len(row[index]) for row in cells) for index in range(len(self.columns))]
        return [
            "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]

    def rich(self, *, title: bool = True) -> RichTable:
        """Return the same for a terminal, with the phases coloured."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=title
        )
        for column in self.columns:
            table.add_column(column, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell or "-", style=STYLES.get(cell, "")) for cell in row))
        return table
