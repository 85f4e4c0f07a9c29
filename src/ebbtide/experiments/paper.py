"""The paper's Table 2 (average regret over ten runs), for comparison."""

import pandas as pd

ALGORITHMS = ("gp-ucb", "r-gp-ucb", "tv-gp-ucb", "et-gp-ucb", "abo", "w-dbo")

AVERAGE_REGRET = pd.DataFrame.from_dict(
    {
        "rastrigin": (17.81, 53.67, 26.50, 19.54, 36.16, 18.54),
        "schwefel": (469.10, 954.03, 520.40, 428.97, 662.32, 290.34),
        "styblinski-tang": (18.83, 45.82, 15.74, 22.16, 58.40, 13.04),
        "eggholder": (542.53, 273.60, 287.01, 559.61, 256.92, 225.68),
        "ackley": (4.10, 4.45, 3.27, 3.96, 3.63, 2.24),
        "rosenbrock": (31.37, 25.99, 17.55, 28.79, 171.04, 3.81),
        "shekel": (2.56, 2.21, 2.03, 2.70, 2.06, 1.72),
        "hartmann3": (1.17, 0.26, 0.82, 1.06, 0.55, 0.35),
        "hartmann6": (1.33, 1.25, 0.44, 1.46, 0.61, 0.32),
        "powell": (1992.1, 1167.6, 1223.4, 534.2, 9888.6, 428.1),
        "temperature": (1.02, 0.69, 1.36, 1.25, 1.21, 0.68),
        "wlan": (1.46, 4.84, 1.33, 4.98, 12.94, 1.19),
    },
    orient="index",
    columns=list(ALGORITHMS),
)
