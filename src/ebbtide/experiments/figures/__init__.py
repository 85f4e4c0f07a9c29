"""Figures as in a paper: each function takes data and returns a matplotlib figure; `style.save` writes it."""
