"""One self-contained HTML page."""

import base64
import html
from collections.abc import Mapping
from pathlib import Path

from ebbtide.experiments.reproduction.studio import Section, Studio
from ebbtide.files import write_atomically
from ebbtide.version import __version__

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --line: #bbb; --soft: #666; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #161616; --line: #555; --soft: #aaa; } }
body { font: 16px/1.5 Georgia, serif; color: var(--ink); background: var(--paper); max-width: 68rem; margin: 2rem auto;
  padding: 0 1rem; }
h1, h2 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
nav a { margin-right: 1rem; } a { color: inherit; }
.wide { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; font-size: .82rem; white-space: nowrap; border-block: 2px solid var(--ink); }
caption { caption-side: top; text-align: left; white-space: normal; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .2rem .6rem; text-align: right; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 1px solid var(--ink); }
.line-above td { border-top: 1px solid var(--ink); } .line-left { border-left: 1px solid var(--ink); }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; background: #fff; }
figcaption { color: var(--soft); font-size: .9rem; }
"""


def write_report(studio: Studio, sections: Mapping[str, Section], name: str = "report") -> Path:
    """One HTML file in the studio's folder."""
    links = " ".join(f'<a href="#{name}">{html.escape(section.title)}</a>' for name, section in sections.items())
    about = f"ebbtide {__version__}; {studio.scale}."
    if studio.quick:
        about += " A quick version: it shows that everything works, but proves nothing."
    body = "\n".join(_section(name, section) for name, section in sections.items())
    failed = "".join(f"<pre>{html.escape(failure.traceback)}</pre>" for failure in studio.failures)
    trouble = f'<h2 id="failures">Runs that failed</h2>{failed}' if failed else ""
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>This Too Shall Pass, reproduced</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>This Too Shall Pass, reproduced</h1><p>{html.escape(about)}</p><nav>{links}</nav>\n{body}\n{trouble}"
        f"</body></html>\n"
    )
    path = studio.out / f"{name}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)
    return path


def _section(name: str, section: Section) -> str:
    paragraphs = "".join(f"<p>{html.escape(text)}</p>" for text in section.paragraphs)
    tables = "".join(f'<div class="wide">{table.html()}</div>' for table in section.tables)
    pictures = "".join(
        f'<figure><img src="{_embedded(path)}" alt="{html.escape(caption, quote=True)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for path, caption in section.pictures
    )
    return f'<section id="{name}"><h2>{html.escape(section.title)}</h2>{paragraphs}{tables}{pictures}</section>'


def _embedded(path: Path) -> str:
    kind = path.suffix.removeprefix(".")
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
