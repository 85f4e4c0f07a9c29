"""The metrics that Prometheus collects: of the service, and of each study."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ebbtide.study.storage import Summary

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


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

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self.requests.labels(method, route, status).inc()
        self.seconds.labels(method, route).observe(seconds)

    def text(self, studies: list[Summary], damaged: int, log_size: int) -> bytes:
        own = CollectorRegistry()
        own.register(_Database(damaged, log_size))
        own.register(_Studies(studies))
        return generate_latest(self.registry) + generate_latest(own)


class _Database:
    def __init__(self, damaged: int, log_size: int) -> None:
        self.damaged, self.log_size = damaged, log_size

    def collect(self) -> Iterator[Metric]:
        about = "Studies that cannot be read."
        yield GaugeMetricFamily("ebbtide_studies_damaged", about, value=self.damaged)
        about = "Size of the database's write-ahead log, which long readers keep from shrinking."
        yield GaugeMetricFamily("ebbtide_write_ahead_log_bytes", about, value=self.log_size)


class _Studies:
    def __init__(self, studies: list[Summary]) -> None:
        self.studies = studies

    def collect(self) -> Iterator[Metric]:
        number = GaugeMetricFamily("ebbtide_studies", "Studies stored.")
        number.add_metric((), len(self.studies))
        yield number
        for family, counts in (
            (_counter("asked", "Trials asked for."), [study.asked for study in self.studies]),
            (_counter("told", "Observations told."), [study.told for study in self.studies]),
            (_counter("failed", "Evaluations that failed."), [study.failed for study in self.studies]),
            (_counter("abandoned", "Evaluations that were called off."), [study.abandoned for study in self.studies]),
            (_counter("removed", "Observations removed as stale."), [study.removed for study in self.studies]),
            (
                GaugeMetricFamily("ebbtide_active", "Observations that the model sees.", labels=("study",)),
                [study.active for study in self.studies],
            ),
        ):
            for study, count in zip(self.studies, counts, strict=True):
                family.add_metric((study.name,), count)
            yield family


def _counter(name: str, about: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"ebbtide_{name}", about, labels=("study",))
