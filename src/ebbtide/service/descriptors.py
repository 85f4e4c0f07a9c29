"""Room for connections: each needs a file descriptor, and a process may have only so many."""

import sys

OWN = 100  # for the database, the processes and the files of the service itself


def raise_limit(connections: int) -> int:
    """Raise the soft limit of descriptors as far as needed and allowed; for how many connections is it enough?"""
    if sys.platform == "win32":
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    wanted = connections + OWN
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - OWN))
