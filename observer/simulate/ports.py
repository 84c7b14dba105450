"""Loopback ports of the simulated fleet: each is held from before the first life of a process until after its last."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

RUN_ATTEMPTS = 200
BELOW = range(12_000, 32_000)
"""Ports that systems do not give to outgoing connections: where every second port of their own range lingers after many
connections, a run of consecutive ones is found only here."""


class HeldPort:
    """A port that is bound for as long as this exists, so that nobody else is given it while its process is down.

    A plain free port is not enough: the system hands a port between two lives to any outgoing connection of any
    process. A bound socket that does not listen refuses connections and takes the port from everybody else. Listeners
    of the lives bind beside it: both allow SO_REUSEPORT, which the system honours for equal users that name the port,
    never when it chooses one. Port 0 lets the system choose. Raises `OSError` when the port is taken; with
    ``exclusive``, also when only the connections of a former owner linger on it.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, exclusive: bool = False) -> None:
        self._host = host
        self._holder = _bound(host, port, socket.SO_REUSEADDR if port and not exclusive else None)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.port = int(self._holder.getsockname()[1])

    def listen(self, backlog: int = 256, send_buffer: int = -1) -> socket.socket:
        """A socket that listens on the port, for one life; the caller closes it.

        ``send_buffer`` is what the system may keep of each connection's unsent bytes; -1 is the system's own measure.
        """
        # What it accepts inherits both, so that a later life, here or in a later process, binds while those linger.
        made = _bound(self._host, self.port, socket.SO_REUSEADDR, socket.SO_REUSEPORT)
        try:
            if send_buffer >= 0:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
            made.listen(backlog)
        except OSError:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Give the port back."""
        self._holder.close()


def _bound(host: str, port: int, *options: int | None) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        for option in options:
            if option is not None:
                made.setsockopt(socket.SOL_SOCKET, option, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made


def held_run(count: int, host: str = "127.0.0.1") -> list[HeldPort]:
    """So many consecutive ports, all held. Raises `OSError` when no such run is free."""
    for attempt in range(RUN_ATTEMPTS):
        with ExitStack() as undo:
            try:
                first = random.choice(BELOW) if attempt % 2 else 0
                held = [HeldPort(host, first, exclusive=True)]
                undo.callback(held[0].close)
                for offset in range(1, count):
                    held.append(HeldPort(host, held[0].port + offset, exclusive=True))
                    undo.callback(held[-1].close)
            except (OSError, OverflowError):
                continue
            undo.pop_all()
            return held
    raise OSError(f"no run of {count} free ports of {host} in {RUN_ATTEMPTS} attempts")
