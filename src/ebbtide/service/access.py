"""What the sender of a request may do.

| scope | allows                                                   |
|-------|----------------------------------------------------------|
| read  | to look at studies, their events, metrics and recommendations |
| tell  | to record what was measured                              |
| ask   | to get trials                                            |
| admin | everything, including to create and to delete studies    |

All of that only for studies whose names begin with the token's prefix; for the token, the others do not exist.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from ebbtide.errors import AccessError, UnknownStudyError
from ebbtide.study.storage.tokens import SCOPES

KEY = "ebbtide.access"  # in the scope of a request
ANY, PUBLIC = "any", "public"  # in place of a scope: every token will do; not even a token is needed

# Every route with the scope that it needs. A route that is missing here fails.
NEEDS = {
    ("GET", "/"): PUBLIC,
    ("GET", "/view/{name}"): PUBLIC,
    ("GET", "/static/{name}"): PUBLIC,
    ("GET", "/livez"): ANY,
    ("GET", "/readyz"): ANY,
    ("GET", "/healthz"): ANY,
    ("GET", "/metrics"): "read",
    ("GET", "/studies"): "read",
    ("POST", "/studies"): "admin",
    ("POST", "/ask"): "ask",
    ("POST", "/tell"): "tell",
    ("GET", "/studies/{name}"): "read",
    ("DELETE", "/studies/{name}"): "admin",
    ("POST", "/studies/{name}/ask"): "ask",
    ("POST", "/studies/{name}/tell"): "tell",
    ("GET", "/studies/{name}/trials/{trial_id}"): "read",
    ("GET", "/studies/{name}/recommend"): "read",
    ("POST", "/studies/{name}/recommend"): "read",  # it changes nothing
    ("GET", "/studies/{name}/observations"): "read",
    ("GET", "/studies/{name}/state"): "read",
    ("GET", "/studies/{name}/events"): "read",
    ("GET", "/studies/{name}/view"): "read",
    ("GET", "/studies/{name}/trail"): "read",
}


@dataclass(frozen=True)
class Access:
    scopes: frozenset[str]
    prefix: str  # of the names of the studies; "" for all
    token_id: str | None = None  # None: the administrator's token, or a service without tokens

    @property
    def sees_all(self) -> bool:
        return self.prefix == ""

    def covers(self, name: str) -> bool:
        return name.startswith(self.prefix)

    def allows(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def check(self, scope: str) -> None:
        if not self.allows(scope):
            own = ", ".join(each for each in SCOPES if each in self.scopes)
            raise AccessError(
                f"this token has no scope {scope!r}, only {own or 'none'}; "
                f"a token that has it is made with `ebbtide token create --scope {scope}`"
            )

    def check_study(self, name: str) -> None:
        """The same error as for a study that does not exist, without looking whether it does."""
        if not self.covers(name):
            raise unknown(name)

    def check_new(self, name: str) -> None:
        if not self.covers(name):
            raise AccessError(
                f"name={name!r}: with this token the names of studies begin with {self.prefix!r}; "
                f"choose another name, such as {f'{self.prefix}{name}'!r}"
            )


EVERYTHING = Access(frozenset(SCOPES), "")  # for the administrator, and in a service without tokens
NOTHING = Access(frozenset(), "/")  # for whoever needs no token; no name has a slash


def unknown(name: str) -> UnknownStudyError:
    """For a token with a prefix; the storage's own error names other studies."""
    return UnknownStudyError(f"there is no study {name!r}; GET /studies lists those of this token")


def access_of(scope: MutableMapping[str, Any]) -> Access:
    found: Access = scope.get(KEY, NOTHING)
    return found


async def guard(request: Request) -> None:
    """Runs before every route. Studies that a body names are checked by the route itself."""
    access, need = access_of(request.scope), NEEDS[request.method, request.scope["route"].path]
    if need == PUBLIC:
        return
    if need != ANY:
        access.check(need)
    if (name := request.path_params.get("name")) is not None:
        access.check_study(name)
