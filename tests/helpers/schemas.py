"""Requests that Schemathesis makes up from a service's OpenAPI document: valid, invalid, and whole sequences."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

CHECKS = {
    # JSON Schema cannot say that low < high, that a trial is told once, or that a name is free.
    "positive_data_acceptance": {"enabled": False},
}


@dataclass
class Report:
    answered: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))  # by route
    failures: dict[str, str] = field(default_factory=dict)  # with the commands that reproduce them
    errors: list[object] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return sum(statuses.total() for statuses in self.answered.values())

    def check(self) -> None:
        assert not self.errors
        assert not self.failures, "\n\n".join(f"{failure}\n{sample}" for failure, sample in self.failures.items())


def make_up(url: str, seed: int, examples: int) -> Report:
    """`examples` per route and phase. Event streams are left out: they have no end."""
    import schemathesis
    from schemathesis.config import SchemathesisConfig
    from schemathesis.engine import events, from_schema

    config = SchemathesisConfig.from_dict(
        {
            "seed": seed,
            "continue-on-failure": True,
            "cache": {"enabled": False},
            "generation": {"max-examples": examples, "deterministic": True, "database": "none"},
            "phases": {"stateful": {"generation": {"max-examples": examples}, "max-steps": 6}},
            "checks": CHECKS,
        }
    )
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", config=config)
    report = Report()
    for event in from_schema(schema.exclude(path_regex="/events$")).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            report.errors.append(event)
        if isinstance(event, events.ScenarioFinished):
            for number, interaction in event.recorder.interactions.items():
                case = event.recorder.cases[number].value
                if interaction.response is not None:
                    report.answered[f"{case.method} {case.path}"][interaction.response.status_code] += 1
            for checks in event.recorder.checks.values():
                for failed in (check.failure_info for check in checks if check.failure_info is not None):
                    report.failures.setdefault(str(failed.failure), failed.code_sample)
    return report
