"""`ebbtide serve`."""

from ebbtide.cli.requirements import need


def serve(storage: str, host: str, port: int, token: str | None, allowed_hosts: tuple[str, ...]) -> None:
    need("fastapi", "prometheus_client", "uvicorn", extra="service")
    from ebbtide import service

    service.serve(storage, host=host, port=port, token=token, allowed_hosts=allowed_hosts)
