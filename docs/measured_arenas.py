"""The tables of `perf/arenas.py`: ratios of regrets, a row for each rival or for what an optimizer was told."""

import pandas as pd

OURS = "tide"
ASKS = (300, 1000, 3000, 10000)
PER_CHANGE = {300: 3, 1000: 10, 3000: 30, 10000: 100}
STATIC = "best static"
TOLD = "simbench told"


def _wide(found: pd.DataFrame, asks: int) -> pd.DataFrame:
    return found[(found["figure"] == "peers") & (found["asks"] == asks)]


def _arenas(found: pd.DataFrame) -> list[str]:
    """In all of which a run was made; what is told of its world comes last."""
    names = [name for name in found[found["figure"] == "peers"]["arena"].unique() if name not in ("all", TOLD)]
    return [*names, TOLD]


def peers_header(found: pd.DataFrame) -> list[str]:
    return [f"{OURS} /", *_arenas(found), "all but told", "95 % interval", "p", "pairs"]


def peers_rows(found: pd.DataFrame, asks: int) -> list[list[str]]:
    """Of all arenas together, only where there is more than one."""
    return [
        _rival(lines.set_index("arena"), _arenas(found)) for _, lines in _wide(found, asks).groupby("rival", sort=False)
    ]


def _rival(lines: pd.DataFrame, arenas: list[str]) -> list[str]:
    ratios = [f"{lines.at[arena, 'ratio']:.2f}" if arena in lines.index else "–" for arena in arenas]
    rival = str(lines["rival"].iloc[0])
    if "all" not in lines.index:
        return [rival, *ratios, "–", "–", "–", "–"]
    last = lines.loc["all"]
    return [rival, *ratios, f"**{last['ratio']:.2f}**", *_evidence(last)]


def _evidence(line: pd.Series) -> list[str]:
    """Interval, p and pairs; one pair has neither of the first two."""
    if pd.isna(line["low"]):
        return ["–", "–", f"{line['pairs']}"]
    p = "< 0.001" if line["p"] < 0.001 else f"{line['p']:.2g}"
    return [f"{line['low']:.2f} to {line['high']:.2f}", p, f"{line['pairs']}"]


def beginnings_header(found: pd.DataFrame) -> list[str]:
    return ["asks in all", "other", "arena", "other's", OURS, "ratio", "95 % interval", "p", "pairs"]


def beginnings_rows(found: pd.DataFrame) -> list[list[str]]:
    lines = found[found["figure"] == "beginnings"]
    return [[f"{line['asks']:,}", str(line["rival"]), str(line["arena"]), *_both(line)] for _, line in lines.iterrows()]


def _both(line: pd.Series) -> list[str]:
    """Theirs, ours, the ratio and the evidence."""
    means = [f"{line[side]:.3g}" for side in ("theirs", "ours")]
    return [*means, f"**{line['ratio']:.2f}**", *_evidence(line)]


def static_header(found: pd.DataFrame) -> list[str]:
    return ["asks", "between two changes", *_arenas(found)]


def static_rows(found: pd.DataFrame) -> list[list[str]]:
    """Ours over the best static setting, with the interval and the number of pairs."""
    rows = []
    for asks, between in PER_CHANGE.items():
        wide = _wide(found, asks)
        lines = wide[wide["rival"] == STATIC].set_index("arena")
        cells = [_ratio(lines.loc[arena]) if arena in lines.index else "–" for arena in _arenas(found)]
        rows += [[f"{asks:,}", str(between), *cells]] if len(lines) else []
    return rows


def _ratio(line: pd.Series) -> str:
    interval = "" if pd.isna(line["low"]) else f" ({line['low']:.2f} to {line['high']:.2f})"
    return f"**{line['ratio']:.2f}**{interval}, {line['pairs']}"


def regrets_header(found: pd.DataFrame) -> list[str]:
    return ["asks", "", *_arenas(found)]


def regrets_rows(found: pd.DataFrame) -> list[list[str]]:
    """Mean regret of each; ours over the seeds that it shares with whoever has most."""
    rows = []
    for asks in (asks for asks in PER_CHANGE if len(_wide(found, asks))):
        peers = _wide(found, asks)
        shared = peers.sort_values("pairs", ascending=False, kind="stable").drop_duplicates("arena")
        rows.append([str(asks), OURS, *_means(shared.set_index("arena")["ours"], _arenas(found))])
        for rival, lines in peers.groupby("rival", sort=False):
            theirs = lines.set_index("arena")["theirs"].drop(TOLD, errors="ignore")  # the same as on the other grid
            rows.append([str(asks), str(rival), *_means(theirs, _arenas(found))])
    return rows


def _means(values: pd.Series, arenas: list[str]) -> list[str]:
    return [f"{float(values[arena]):.3g}" if arena in values.index else "–" for arena in arenas]


def grid_header(found: pd.DataFrame) -> list[str]:
    return ["asks", "told", "measure", "without", "with", "ratio", "95 % interval", "p", "pairs"]


def grid_rows(found: pd.DataFrame) -> list[list[str]]:
    lines = found[found["figure"] == "grid"]
    return [[str(line["asks"]), *str(line["rival"]).split(": "), *_both(line)] for _, line in lines.iterrows()]
