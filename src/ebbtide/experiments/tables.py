"""Tables as Markdown, LaTeX and HTML."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ebbtide.experiments.statistics import Comparison, normalised


@dataclass(frozen=True)
class Cell:
    text: str
    bold: bool = False
    underlined: bool = False


@dataclass(frozen=True)
class Table:
    """A header, rows of cells, and the rows and columns that have a line before them."""

    caption: str
    header: list[str]
    rows: list[list[Cell]]
    line_before_rows: set[int] = field(default_factory=set)
    line_before_columns: set[int] = field(default_factory=set)

    def markdown(self) -> str:
        lines = [self.header, ["---"] * len(self.header), *([_markdown(cell) for cell in row] for row in self.rows)]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def latex(self) -> str:
        """For `booktabs`."""
        columns = "".join("|" * (i in self.line_before_columns) + ("l" if i == 0 else "r") for i in range(self._width))
        body = []
        for i, row in enumerate(self.rows):
            body += ["\\midrule"] * (i in self.line_before_rows)
            body.append(" & ".join(_latex(cell) for cell in row) + r" \\")
        head = " & ".join(_latex(Cell(name)) for name in self.header) + r" \\"
        lines = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule", head, "\\midrule", *body, "\\bottomrule"]
        return "\n".join([*lines, "\\end{tabular}"]) + "\n"

    def html(self) -> str:
        head = "".join(f"<th{self._class(i)}>{html.escape(name)}</th>" for i, name in enumerate(self.header))
        rows = [
            ('<tr class="line-above">' if i in self.line_before_rows else "<tr>")
            + "".join(f"<td{self._class(j)}>{_html(cell)}</td>" for j, cell in enumerate(row))
            + "</tr>"
            for i, row in enumerate(self.rows)
        ]
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _class(self, column: int) -> str:
        return ' class="line-left"' if column in self.line_before_columns else ""

    @property
    def _width(self) -> int:
        return len(self.header)


def _markdown(cell: Cell) -> str:
    text = f"<u>{cell.text}</u>" if cell.underlined else cell.text
    return f"**{text}**" if cell.bold else text


_LATEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "α": r"$\alpha$", "−": "$-$", "×": r"$\times$", "–": "--"} | {
    character: f"\\{character}" for character in "&%$#_{}"
}


def _latex(cell: Cell) -> str:
    text = "".join(_LATEX.get(character, character) for character in cell.text)
    text = f"\\underline{{{text}}}" if cell.underlined else text
    return f"\\textbf{{{text}}}" if cell.bold else text


def _html(cell: Cell) -> str:
    text = html.escape(cell.text)
    text = f"<u>{text}</u>" if cell.underlined else text
    return f"<b>{text}</b>" if cell.bold else text


def short(value: float) -> str:
    """Three digits; no decimals from 100 up."""
    if np.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def with_error(mean: float, error: float) -> str:
    """The mean to the precision of its standard error; without an error, three digits.

    >>> with_error(1.93561, 0.0271), with_error(1283.2, 34.9), with_error(0.5, float("nan"))
    ('1.936 ± 0.027', '1,283 ± 35', '0.5')
    """
    if not (np.isfinite(error) and error > 0.0):
        return short(mean)
    digits = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"


def regret_table(
    comparison: Comparison,
    caption: str,
    *,
    main: Sequence[str],
    published: pd.DataFrame | None = None,
    line_before: Sequence[str] = (),
) -> Table:
    """Mean ± standard error; among the `main` algorithms the best in bold, those that overlap it underlined, and
    the last row their normalised averages. The others follow after a line. `published` figures go in brackets.
    """
    means, errors = comparison.means, comparison.errors
    others = [name for name in means.columns if name not in main]
    columns = [*main, *others]
    overlapping, best = comparison.overlapping(main), means[list(main)].idxmin(axis=1)
    rows = []
    for problem in means.index:
        row = [Cell(str(problem))]
        for name in columns:
            text = with_error(means.at[problem, name], errors.at[problem, name])
            if published is not None and name in published.columns and problem in published.index:
                text += f" ({published.at[problem, name]:g})"
            is_best = name in main and name == best[problem]
            row.append(Cell(text, is_best, name in main and not is_best and bool(overlapping.at[problem, name])))
        rows.append(row)
    averages = normalised(means, main).mean()
    best_average = averages[list(main)].idxmin()
    known = _published_averages(published)
    rows.append(
        [Cell("normalised average")]
        + [
            Cell(f"{averages[name]:.2f}" + (f" ({known[name]:.2f})" if name in known else ""), name == best_average)
            for name in columns
        ]
    )
    lines = {len(rows) - 1} | {i for i, problem in enumerate(means.index) if problem in line_before}
    return Table(caption, ["benchmark", *columns], rows, lines, {len(main) + 1} if others else set())


def _published_averages(published: pd.DataFrame | None) -> dict[str, float]:
    return {} if published is None else {str(k): float(v) for k, v in normalised(published).mean().items()}


def value_table(means: pd.DataFrame, caption: str) -> Table:
    """Plain means."""
    rows = [
        [Cell(str(i)), *(Cell(short(float(v))) for v in line)]
        for i, line in zip(means.index, means.to_numpy(), strict=True)
    ]
    return Table(caption, ["benchmark", *map(str, means.columns)], rows)
