"""Appendix H.4 and Figure 22: W-DBO on the two camel functions, as animations."""

from dataclasses import replace

from ebbtide.experiments import animation
from ebbtide.experiments.reproduction.studio import Section, Studio

PROBLEMS = ("six-hump-camel", "switching-camel")
NOISE = 0.001  # as a share of the signal's variance, which the function's rim dominates: at 5 % no hump can be seen


def make(studio: Studio) -> Section:
    frames = 12 if studio.quick else 120
    pictures, counts = [], []
    for name in PROBLEMS:
        film = animation.record(name, replace(studio.protocol, noise=NOISE, noise_of="variance"), frames)
        gif, *_ = animation.save(film, studio.out / "figures" / f"video-{name}")
        pictures.append(
            (gif, f"{name}: contours are predictions, dots active, crosses removed; the line is the truth.")
        )
        studio.save_figure(animation.still(film), f"still-{name}")
        last = film.snapshots[-1]
        counts.append(f"{name}: {len(last.removed)} of {len(last.removed) + len(last.active)}")
    text = "Observations removed by the end of the film: " + "; ".join(counts) + "."
    return Section("Animations", [text], pictures=pictures)
