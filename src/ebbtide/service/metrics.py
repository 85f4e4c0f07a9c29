"""The metrics that Prometheus collects: of the service, and of each study."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ebbtide.service.figures import Figures, Place, Scrape
from ebbtide.study.gain import Gain

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
LONG_BUCKETS = (*BUCKETS, 25.0)  # by when every ask is answered


class Metrics:
    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter(
            "ebbtide_http_requests", "Requests answered or refused.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "ebbtide_http_request_seconds",
            "Seconds from a request to the start of its answer.",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )

        self.connections = Counter("ebbtide_http_connections", "Connections made.", registry=self.registry)
        self.open_connections = Gauge(
            "ebbtide_http_open_connections", "Connections that are open.", registry=self.registry
        )
        self.ended_connections = Counter(
            "ebbtide_http_ended_connections",
            "Connections ended because of what their client does, by reason.",
            ("reason",),
            registry=self.registry,
        )

        about = "Seconds since the oldest ask without an answer came; 0 if all are answered."
        self.oldest_ask = Gauge("ebbtide_oldest_ask_seconds", about, registry=self.registry)
        about = "Seconds that asks took, with all their trials."
        self.ask_seconds = Histogram("ebbtide_ask_seconds", about, buckets=LONG_BUCKETS, registry=self.registry)
        about = "Seconds until tells were on the disk."
        self.tell_seconds = Histogram("ebbtide_tell_seconds", about, buckets=LONG_BUCKETS, registry=self.registry)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, status).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self, scrape: Scrape | None, place: Place) -> bytes:
        """All of them; if the database cannot be read (None), those of the service itself."""
        own = CollectorRegistry()
        own.register(_Place(place))
        return generate_latest(self.registry) + self.text_of_studies(scrape) + generate_latest(own)

    def text_of_studies(self, scrape: Scrape | None) -> bytes:
        """Without what all tenants cause together."""
        own = CollectorRegistry()
        own.register(_Storage(scrape is not None))
        if scrape is not None:
            own.register(_Studies(scrape))
        return generate_latest(own)


class _Storage:
    def __init__(self, readable: bool) -> None:
        self.readable = readable

    def collect(self) -> Iterator[Metric]:
        about = "1 if the studies can be read; 0 if the file is gone, was replaced or is damaged."
        yield GaugeMetricFamily("ebbtide_storage_readable", about, value=self.readable)


class _Place:
    def __init__(self, place: Place) -> None:
        self.place = place

    def collect(self) -> Iterator[Metric]:
        if self.place.log_size is not None:
            about = "Size of the database's write-ahead log, which long readers keep from shrinking."
            yield GaugeMetricFamily("ebbtide_write_ahead_log_bytes", about, value=self.place.log_size)
        if (disk := self.place.disk) is not None:
            yield GaugeMetricFamily("ebbtide_disk_bytes", "Size of the disk that holds the database.", value=disk.size)
            yield GaugeMetricFamily("ebbtide_disk_free_bytes", "Bytes of it that are free.", value=disk.free)


class _Studies:
    def __init__(self, scrape: Scrape) -> None:
        self.scrape = scrape

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("ebbtide_studies", "Studies stored.", value=self.scrape.stored)
        about = "Studies that cannot be read, among the newest."
        yield GaugeMetricFamily("ebbtide_studies_damaged", about, value=self.scrape.damaged)
        for kind, name, about, number in PER_STUDY:
            family = kind(f"ebbtide_{name}", about, labels=("study",))
            for study in self.scrape.shown:
                if (found := number(study)) is not None:
                    family.add_metric((study.summary.name,), found)
            yield family


Number = Callable[[Figures], float | None]


def _of_gain(number: Callable[[Gain], float]) -> Number:
    return lambda study: None if study.gain is None else number(study.gain)


def _violation_rate(study: Figures) -> float | None:
    return None if study.summary.violations is None else study.summary.violations.rate


PER_STUDY: tuple[tuple[type[CounterMetricFamily] | type[GaugeMetricFamily], str, str, Number], ...] = (
    (CounterMetricFamily, "asked", "Trials asked for.", lambda study: study.summary.asked),
    (CounterMetricFamily, "told", "Observations told.", lambda study: study.summary.told),
    (CounterMetricFamily, "failed", "Evaluations that failed.", lambda study: study.summary.failed),
    (CounterMetricFamily, "abandoned", "Evaluations that were called off.", lambda study: study.summary.abandoned),
    (CounterMetricFamily, "removed", "Observations removed as stale.", lambda study: study.summary.removed),
    (GaugeMetricFamily, "active", "Observations that the model sees.", lambda study: study.summary.active),
    (GaugeMetricFamily, "last_told_timestamp_seconds", "When it was last told.", lambda study: study.last_told),
    (GaugeMetricFamily, "timescale_seconds", "l_T, as last fitted.", lambda study: study.timescale),
    (GaugeMetricFamily, "gain", "Gain over the baseline; positive is better.", _of_gain(lambda gain: gain.mean)),
    (GaugeMetricFamily, "gain_low", "Lower end of its 95 % interval.", _of_gain(lambda gain: gain.low)),
    (GaugeMetricFamily, "gain_high", "Upper end of its 95 % interval.", _of_gain(lambda gain: gain.high)),
    (GaugeMetricFamily, "violation_rate", "Share of the asks that broke a constraint.", _violation_rate),
)
