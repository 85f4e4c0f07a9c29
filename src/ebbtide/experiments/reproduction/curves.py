"""Figures 4 and 8-21: average regret, dataset size and response time on each benchmark."""

from ebbtide import benchmarks
from ebbtide.experiments.figures import comparison
from ebbtide.experiments.reproduction import table
from ebbtide.experiments.reproduction.studio import Section, Studio

UNITS = {"temperature": "°C", "wlan": "Mbit/s"}  # the synthetic functions have none


def make(studio: Studio) -> Section:
    jobs = table.jobs(studio)
    studio.run("curves", jobs)
    pictures = []
    for name in benchmarks.PAPER:
        frames = studio.frames([job for job in jobs if job.benchmark == name])
        if frames:
            figure = comparison.over_time(name, frames, UNITS.get(name))
            pictures.append((studio.save_figure(figure, f"curves-{name}"), f"{name} ({studio.scale})."))
    text = (
        "Mean over the seeds; shaded, or as a cross, the standard error. ABO's response time does not include its "
        "waiting. ET-GP-UCB coincides with GP-UCB where it never resets."
    )
    return Section("Over time", [text], pictures=pictures)
