"""What a study expects of its objective before the data says more: the weak prior, and what siblings are like."""

from dataclasses import dataclass

from ebbtide.gp.arrays import Array
from ebbtide.gp.hyperparameters import Hyperparameters
from ebbtide.gp.priors import Prior
from ebbtide.gp.standardization import Form, Standardization
from ebbtide.study.family import Family
from ebbtide.study.knowledge import Knowledge


@dataclass(frozen=True)
class Expected:
    """Everything is for values in some unit, in which the model sees them."""

    known: Knowledge
    family: Family | None

    def prior(self, unit: Standardization) -> Prior:
        """Of the hyperparameters."""
        weak, known = self.known.prior(), self.known
        return weak if self.family is None else self.family.prior(weak, known.families, known.space.width, unit)

    def hyperparameters(self, unit: Standardization) -> Hyperparameters:
        """The prior's centre, until there is something to fit."""
        prior = self.prior(unit)
        return self.known.families.hyperparameters(prior.clip(prior.center))

    def mean(self, unit: Standardization) -> tuple[float, float] | None:
        """Of the process, and how far it may be from that; None if nothing is known."""
        return None if self.family is None else self.family.mean(unit)

    def standardization(self, y: Array) -> Standardization | None:
        """For values too few to be standardised by themselves; None if nothing is known."""
        return None if self.family is None else self.family.standardization(y)

    @property
    def form(self) -> Form:
        """Of the transform: that of the siblings until the study has chosen its own."""
        first = self.known.state.hyper is None and self.known.algorithm.transform == "auto"
        return Form(self.family.power) if first and self.family is not None else self.known.usual_form
