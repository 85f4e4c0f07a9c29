"""Figures 1 and 2: why the Wasserstein distance is divided by the distance to the prior."""

from ebbtide.experiments.distances import at_distance, at_ratio
from ebbtide.experiments.figures import criterion
from ebbtide.experiments.reproduction.studio import Section, Studio

SHORT, LONG = 0.06, 0.4


def make(studio: Studio) -> Section:
    same = [at_distance(SHORT, 0.4, seed=0), at_distance(LONG, 0.4, seed=2)]
    ratios = [at_ratio(lengthscale, ratio, seed=2) for ratio in (0.15, 0.6) for lengthscale in (SHORT, 0.3)]
    pictures = [
        (
            studio.save_figure(criterion.same_distance(same), "distance"),
            "The same distance with different effects (Figure 1).",
        ),
        (
            studio.save_figure(criterion.normalised_distances(ratios), "distance-normalised"),
            "Normalised distances (Figure 2): a small R above, a large one below, whatever the lengthscale.",
        ),
    ]
    text = (
        f"Without one observation the posterior is {same[0].distance:.2f} away in both panels of the first figure, but "
        f"R is {same[0].ratio:.2f} for l = {SHORT} and {same[1].ratio:.2f} for l = {LONG}."
    )
    return Section("The distance, and why it is normalised", [text], pictures=pictures)
