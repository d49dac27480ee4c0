"""An OpenAI-compatible server on 127.0.0.1 whose behaviour is a function of the request body.

So that tests see what really leaves the process, and can answer as bad servers do.
"""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROMPT_TOKENS, OUTPUT_TOKENS = 11, 7


@dataclass
class Reply:
    """What the server sends back. `wait` seconds pass first; `raw` replaces the whole body."""

    content: Any = ""
    finish: str = "stop"
    status: int = 200
    error: dict | None = None
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    raw: str | None = None

    def body(self, model: str) -> str:
        if self.raw is not None:
            return self.raw
        if self.error is not None:
            return json.dumps({"error": self.error})
        content = self.content if self.content is None or isinstance(self.content, str) else json.dumps(self.content)
        choice = {"index": 0, "finish_reason": self.finish, "message": {"role": "assistant", "content": content}}
        usage = {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": PROMPT_TOKENS + OUTPUT_TOKENS,
        }
        return json.dumps(
            {"id": "x", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
        )


def refusal(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    """An error in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Reply(status=status, error=error, headers={name.replace("_", "-"): value for name, value in headers.items()})


@dataclass
class Seen:
    """One request that arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def format(self) -> str:
        """How it wants the answer held: "json_schema", "json_object" or "text"."""
        return (self.body.get("response_format") or {}).get("type", "text")


class Loopback:
    """A running server: `base` is its address, `seen` the chat requests so far."""

    def __init__(self, answer: Callable[[dict], Any], pages: dict[str, Any] | None = None):
        self.answer, self.pages, self.seen = answer, pages or {}, []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(loopback: Loopback) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            loopback.seen.append(Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            reply = loopback.answer(body)
            reply = reply if isinstance(reply, Reply) else Reply(reply)
            if reply.wait:
                time.sleep(reply.wait)
            self._send(reply.status, reply.body(body["model"]), reply.headers)

        def do_GET(self):
            page = loopback.pages.get(self.path)
            self._send(404 if page is None else 200, page if isinstance(page, str) else json.dumps(page or {}), {})

        def _send(self, status: int, text: str, headers: dict[str, str]):
            data = text.encode()
            try:
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client gave up waiting, as it should

        def log_message(self, format, *args):
            pass

    return Handler


@contextmanager
def serving(answer: Any, pages: dict[str, Any] | None = None) -> Iterator[Loopback]:
    """A server for the length of a block; `answer` is a function of the request body, a `Reply` or a content."""
    # litellm would otherwise make an event loop in this thread and never close it; now it makes one for each call.
    asyncio.set_event_loop(None)
    server = Loopback(answer if callable(answer) else lambda _body: answer, pages)
    try:
        yield server
    finally:
        server.close()


def dead_base() -> str:
    """An address on which nobody listens."""
    with serving("") as server:
        return server.base
