"""The measured numbers on the pages come from docs/data: this says which do not, and puts them right.

    python docs/measured.py            what differs
    python docs/measured.py --write    write the numbers of docs/data to the pages

A table that is made from data has a comment above it, `<!-- data: NAME -->`, and the rows of `measured_tables.py`.
A number in a sentence is found by the words around it, in `measured_sentences.py`. On the pages of results every other
number with a decimal point or a comma must be in `measured_sentences.SETTINGS`: it was chosen, not measured.
tests/docs/test_results.py runs the check.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import measured_sentences as sentences
import measured_tables as tables

ROOT = HERE.parent
MARKED = re.compile(r"^<!-- data: (\S+) -->\n\n?((?:\|.*\n){2})((?:\|.*\n)*)", flags=re.MULTILINE)
MARK = re.compile(r"^<!-- data: (\S+) -->$", flags=re.MULTILINE)
NUMBER = r"(\d(?:[\d,.]*\d)?|[A-Za-z]+)"  # what stands in a hole: digits, or a number as a word
UNQUOTED = re.compile(r"(?<![\w.,/:-])\d+(?:[.,]\d+)+(?![\w./-]*\w)")
NOT_PROSE = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|\]\([^)]*\)", flags=re.DOTALL)


def pages() -> list[str]:
    """README and the site; what happened in the past (the changelog) stays as it was."""
    return ["README.md", *(str(path.relative_to(ROOT)) for path in sorted(HERE.rglob("*.md")))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def updated(page: str) -> tuple[str, list[str]]:
    """The page with the numbers of the data, and what is wrong with it beyond that."""
    text, wrong = with_tables(page, read(page))
    mine = [sentence for sentence in sentences.SENTENCES if sentence.page == page]
    for sentence in mine:
        found = list(pattern(sentence.text).finditer(text))
        if len(found) == 1:
            text = _filled(text, found[0], sentence.values)
        else:
            wrong.append(f"{page}: {sentence.text!r} is there {len(found)} times: see docs/measured_sentences.py")
    patterns = [MARKED, NOT_PROSE, *(pattern(sentence.text) for sentence in mine)]
    checked = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    wrong += [
        f"{page}: {number[0]} is neither in docs/data nor a setting: …{_around(text, number)}…"
        for number in UNQUOTED.finditer(text)
        if number[0] not in sentences.SETTINGS.get(page, (number[0],))
        and not any(start <= number.start() < end for start, end in checked)
    ]
    return text, wrong


def with_tables(page: str, text: str) -> tuple[str, list[str]]:
    wrong = [f"{page}: there is no table {name!r}" for name in MARK.findall(text) if name not in tables.TABLES]

    def renewed(match: re.Match[str]) -> str:
        table = tables.TABLES.get(match[1])
        if table is None:
            return match[0]
        head = match[2] if table.header is None else _header(table.header())
        body = "".join(f"| {' | '.join(row)} |\n" for row in table.rows())
        return f"<!-- data: {match[1]} -->\n{head}{body}"

    return MARKED.sub(renewed, text), wrong


def _header(titles: list[str]) -> str:
    return f"|{'|'.join(f' {title} ' if title else ' ' for title in titles)}|\n|{'---|' * len(titles)}\n"


def pattern(sentence: str) -> re.Pattern[str]:
    """A sentence with holes `{}`, wherever its lines are broken."""
    parts = [r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in sentence.split("{}")]
    return re.compile(NUMBER.join(parts))


def _filled(text: str, match: re.Match[str], values: tuple[str, ...]) -> str:
    for hole in range(len(values), 0, -1):
        start, end = match.span(hole)
        text = text[:start] + values[hole - 1] + text[end:]
    return text


def _around(text: str, match: re.Match[str]) -> str:
    return " ".join(text[max(0, match.start() - 40) : match.end() + 30].split())


def differences(page: str) -> Iterator[str]:
    """What of a page is not as the data says."""
    before = read(page)
    after, wrong = updated(page)
    if len(before.splitlines()) != len(after.splitlines()):
        yield f"{page}: a table has other rows than its data: python docs/measured.py --write"
    else:
        for old, new in zip(before.splitlines(), after.splitlines(), strict=True):
            if old != new:
                yield f"{page}: by docs/data this should be (python docs/measured.py --write):\n- {old}\n+ {new}"
    yield from wrong


def main() -> None:
    found = [line for page in pages() for line in differences(page)]
    if "--write" in sys.argv:
        for page in pages():
            (ROOT / page).write_text(updated(page)[0], encoding="utf-8")
        found = [line for page in pages() for line in differences(page)]
    sys.exit("\n".join(found) or None)


if __name__ == "__main__":
    main()
