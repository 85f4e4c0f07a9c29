"""What the library returns, as JSON: shared by the service, the client and the command line."""

from dataclasses import asdict
from typing import Any

from ebbtide.errors import ConfigurationError
from ebbtide.optimizer import Optimizer
from ebbtide.records import Observation, Recommendation, Trial
from ebbtide.study import codec, conditions, live
from ebbtide.study.storage import Summary


def check_token(token: str) -> None:
    """Raise an error unless a header can hold the token; the message does not repeat it."""
    if not token or not all("!" <= character <= "~" for character in token):
        raise ConfigurationError(
            "the token is empty, or no header can hold it: use ASCII letters, digits and punctuation"
        )


def trial(asked: Trial) -> dict[str, Any]:
    return {
        "id": asked.id,
        "params": asked.params,
        "time": asked.time,
        "expires": asked.expires,
        "kind": asked.kind,
        "context": asked.context,
        "filled": list(asked.filled),
    }


def recommendation(best: Recommendation) -> dict[str, Any]:
    return asdict(best)


def observation(line: int, told: Observation) -> dict[str, Any]:
    return {
        "line": line,
        "id": told.trial_id,
        "params": told.params,
        "time": told.time,
        "value": told.value,
        "failed": told.failed,
        "abandoned": told.abandoned,
        "kind": told.kind,
        "active": told.active,
        "removed_at": told.removed_at,
        "relevance": told.relevance,
        "context": told.context,
        "constraints": told.constraints,
        "filled": list(told.filled),
    }


def study(summary: Summary) -> dict[str, Any]:
    """A study at a glance: its definition, and how much was asked and told."""
    definition = summary.definition
    return {
        "name": summary.name,
        "space": definition["space"],
        "direction": definition["direction"],
        "algorithm": codec.name_described(definition["algorithm"]) or definition["algorithm"],
        "seed": definition["seed"],
        "n_initial": definition["n_initial"],
        "family": definition["family"],
        **{word: definition[word] for word in (*live.WORDS, *conditions.WORDS)},
        "clock": definition["clock"],
        "created": summary.created,
        "asked": summary.asked,
        "told": summary.told,
        "failed": summary.failed,
        "abandoned": summary.abandoned,
        "active": summary.active,
        "removed": summary.removed,
        "last_told": summary.last_told,
        "violations": None if summary.violations is None else asdict(summary.violations),
    }


def model(optimizer: Optimizer) -> dict[str, Any]:
    """What the model believes, and how the optimizer is doing."""
    fitted = optimizer.model
    return {
        "asked": optimizer.asked,
        "told": optimizer.told,
        "active": len(optimizer.dataset),
        "pending": optimizer.pending,
        "hyperparameters": optimizer.hyperparameters,
        "mean": fitted.mean,
        "scale": fitted.scale,
        "response": optimizer.response,
        "siblings": optimizer.siblings,
        "guards": optimizer.guards,
        "warnings": optimizer.warnings,
        "time": optimizer.clock.now(),
    }
