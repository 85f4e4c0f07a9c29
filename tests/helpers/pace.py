"""A slow pace: about one query a second, so that a short run is cheap."""

from ebbtide.experiments import Modelled

FEW_QUERIES = Modelled((0.9, 0.004))
