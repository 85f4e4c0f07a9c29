"""The tables of `perf/arenas.py`: ratios of regrets, a row for each rival or for what an optimizer was told."""

import pandas as pd

OURS = "tide"


def _wide(found: pd.DataFrame) -> pd.DataFrame:
    return found[found["figure"] == "peers"]


def peers_header(found: pd.DataFrame) -> list[str]:
    arenas = [arena for arena in _wide(found)["arena"].unique() if arena != "all"]
    return [f"{OURS} /", *arenas, "all", "95 % interval", "p", "pairs"]


def peers_rows(found: pd.DataFrame) -> list[list[str]]:
    return [_rival(lines, peers_header(found)[1:-3]) for _, lines in _wide(found).groupby("rival", sort=False)]


def _rival(lines: pd.DataFrame, arenas: list[str]) -> list[str]:
    by_arena = lines.set_index("arena")
    ratios = [f"{by_arena.at[arena, 'ratio']:.2f}" if arena in by_arena.index else "–" for arena in arenas]
    last = lines.iloc[-1]
    return [str(last["rival"]), *ratios[:-1], f"**{ratios[-1]}**", *_evidence(last)]


def _evidence(line: pd.Series) -> list[str]:
    """Interval, p and pairs; one pair has neither of the first two."""
    if pd.isna(line["low"]):
        return ["–", "–", f"{line['pairs']}"]
    p = "< 0.001" if line["p"] < 0.001 else f"{line['p']:.2g}"
    return [f"{line['low']:.2f} to {line['high']:.2f}", p, f"{line['pairs']}"]


def regrets_header(found: pd.DataFrame) -> list[str]:
    return ["", *peers_header(found)[1:-4]]


def regrets_rows(found: pd.DataFrame) -> list[list[str]]:
    """Mean regret of each; ours over the seeds that the first rival has."""
    peers, arenas = _wide(found), regrets_header(found)[1:]
    first = peers[peers["rival"] == peers["rival"].iloc[0]].set_index("arena")
    rows = [[OURS, *(f"{first.at[arena, 'ours']:.3g}" for arena in arenas)]]
    for rival, lines in peers.groupby("rival", sort=False):
        theirs = lines.set_index("arena")["theirs"]
        rows.append([str(rival), *(f"{theirs[arena]:.3g}" if arena in theirs.index else "–" for arena in arenas)])
    return rows


def grid_header(found: pd.DataFrame) -> list[str]:
    return ["told", "measure", "without", "with", "ratio", "95 % interval", "p", "pairs"]


def grid_rows(found: pd.DataFrame) -> list[list[str]]:
    lines = found[found["figure"] == "grid"]
    return [
        [
            *str(line["rival"]).split(": "),
            f"{line['theirs']:.3g}",
            f"{line['ours']:.3g}",
            f"**{line['ratio']:.2f}**",
            *_evidence(line),
        ]
        for _, line in lines.iterrows()
    ]
