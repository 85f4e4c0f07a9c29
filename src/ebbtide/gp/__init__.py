"""Gaussian processes in space and time: kernels, posterior, likelihood, inference, and the Wasserstein criterion.

Reading order: `arrays`; `linalg`, `quasirandom` and `standardization`; `kernels`; `hyperparameters`; `posterior`,
`convolutions` and `pairs`; `likelihood`; `inference` and `criterion`; `fading`, `carried`, `carried_exact` and
`incremental`. Outside this package they import only `ebbtide.errors` and `ebbtide.guards`, so they can be used without
the rest of ebbtide:

>>> import numpy as np
>>> from ebbtide.gp.criterion import criterion_of
>>> from ebbtide.gp.kernels import Matern, SpaceTimeKernel
>>> from ebbtide.gp.posterior import condition
>>> kernel = SpaceTimeKernel(1.0, spatial=Matern(2.5, 0.3), temporal=Matern(1.5, 0.2))
>>> X, t, y = np.array([[0.2], [0.2], [0.8]]), np.array([0.0, 0.9, 0.9]), np.array([1.0, 1.1, -0.5])
>>> posterior = condition(kernel, 0.05, X, t, y)
>>> mean, deviation = posterior.at(1.0).predict(np.array([[0.2], [0.5]]))
>>> bool(deviation[0] < deviation[1])    # the first point was measured a moment ago
True
>>> int(criterion_of(posterior, now=1.0).scores().argmin())    # the first observation is the least relevant
0
"""
