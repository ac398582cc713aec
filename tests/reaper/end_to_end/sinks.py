"""A Slack and a mail server on loopback that keep what they are sent; they refuse nothing."""

from __future__ import annotations

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

LOOPBACK = "127.0.0.1"


class Slack:
    """Keeps messages that are posted to a webhook."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        messages = self.messages

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.append(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Says nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_port}/services/x"

    def texts(self) -> list[str]:
        """Gives title and text of each message."""
        return [f"{one['title']} {one['text']}" for sent in self.messages for one in sent["attachments"]]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Session(socketserver.StreamRequestHandler):
    """Speaks as much SMTP as a client needs to hand over a mail."""

    server: _Smtp

    def handle(self) -> None:
        """Answers commands until the client leaves."""
        self._say("220 sink")
        recipients: list[str] = []
        while line := self.rfile.readline().decode().strip():
            verb = line.split(maxsplit=1)[0].upper()
            if verb == "RCPT":
                recipients.append(line.split("<")[1].split(">")[0])
            if verb == "DATA":
                self._say("354 go on")
                self.server.mails.append((recipients, self._data()))
                recipients = []
            self._say("221 bye" if verb == "QUIT" else "250 ok")
            if verb == "QUIT":
                return

    def _data(self) -> str:
        lines = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line.decode())
        return "".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


class _Smtp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], str]] = []
        super().__init__((LOOPBACK, 0), _Session)


class Mail:
    """Keeps mails: recipients and text of each."""

    def __init__(self) -> None:
        self._server = _Smtp()
        self.address = f"{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def mails(self) -> list[tuple[list[str], str]]:
        """What was sent so far."""
        return list(self._server.mails)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
