"""Clients of a simulated deployment: real requests at a bounded rate, and the truth about what was answered."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import aiohttp
import orjson

from observer.simulate.background import Background

WORDS = tuple(f"w{index}" for index in range(400))
MAX_IN_FLIGHT = 64
CLIENT_TIMEOUT = 120.0


class ClientTruth:
    """What clients did and saw on inference calls. ``unanswered`` are broken connections, ``left`` our own aborts."""

    def __init__(self) -> None:
        self.sent = 0
        self.answers: Counter[int] = Counter()
        self.unanswered = 0
        self.left = 0
        self.skipped = 0

    def as_document(self) -> dict[str, Any]:
        """Plain counts for the control API."""
        return {
            "sent": self.sent,
            "answers": {str(status): count for status, count in sorted(self.answers.items())},
            "unanswered": self.unanswered,
            "left": self.left,
            "skipped": self.skipped,
        }


class Clients:
    """Sends requests to some base URLs in turn. Prompts share a few long prefixes, so prefix caches find something."""

    def __init__(
        self, urls: Sequence[str], model: str, background: Background, *, seed: int = 0, images: bool = False
    ) -> None:
        self.urls = tuple(urls)
        self.model = model
        self.truth = ClientTruth()
        self.rate = 0.0
        self._background = background
        self._random = random.Random(seed)
        self._images = images
        self._in_flight = 0
        self._session: aiohttp.ClientSession | None = None
        self._prefixes = [" ".join(self._random.choices(WORDS, k=160)) for _ in range(6)]

    async def start(self, rate: float) -> None:
        """Begin to send ``rate`` requests a second; 0 sends nothing until the rate is changed."""
        self.rate = rate
        timeout = aiohttp.ClientTimeout(total=CLIENT_TIMEOUT)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0))
        self._background.spawn(self._keep_sending(), f"clients of {self.model}")

    async def close(self) -> None:
        """Close the client's connections; its tasks end with the background."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _keep_sending(self) -> None:
        while True:
            if self.rate <= 0:
                await asyncio.sleep(0.1)
                continue
            await asyncio.sleep(min(self._random.expovariate(self.rate), 10.0))
            if self._in_flight >= MAX_IN_FLIGHT:
                self.truth.skipped += 1
                continue
            self._background.spawn(self.send_drawn(), "client request")

    async def send_drawn(self) -> None:
        """Send one request drawn from the usual mix."""
        draw = self._random
        prompt = f"{draw.choice(self._prefixes)} {' '.join(draw.choices(WORDS, k=draw.randint(4, 60)))}"
        tokens = draw.randint(8, 48)
        if draw.random() < 0.2:
            await self.send("/v1/completions", {"prompt": prompt, "max_tokens": tokens})
        else:
            content: Any = prompt
            if self._images:
                image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
                content = [{"type": "text", "text": prompt}, image]
            messages = [{"role": "user", "content": content}]
            await self.send(
                "/v1/chat/completions", {"messages": messages, "max_tokens": tokens, "stream": draw.random() < 0.4}
            )

    async def send(self, path: str, body: dict[str, Any], *, leave_after: float | None = None) -> int | None:
        """Send one request and book its answer; ``None`` when none came. ``leave_after`` seconds the client goes."""
        if self._session is None:
            raise RuntimeError(f"clients of {self.model} are not running")
        self.truth.sent += 1
        self._in_flight += 1
        url = self.urls[self.truth.sent % len(self.urls)]
        data = orjson.dumps({"model": self.model, **body})
        headers = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(leave_after),
                self._session.post(url + path, data=data, headers=headers) as response,
            ):
                await response.read()
                self.truth.answers[response.status] += 1
                return response.status
        except TimeoutError:
            self.truth.left += 1
        except (aiohttp.ClientError, OSError):
            self.truth.unanswered += 1
        finally:
            self._in_flight -= 1
        return None
