#!/usr/bin/env python3
"""Checks that every peer of peers.json answers with the params that it received, over its stdin
and stdout or over a socket, and that it exits when its stdin is closed. With arguments, checks only
the peers whose name contains one of them."""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
METHODS = ["echo", "later", "nap"]
# Number of threads, an argument of the peers that listen.
THREADS = "2"
PAYLOADS = {
    "empty": {},
    "small": {"text": "x" * 40},
    "nested": {"rows": [{"id": n, "at": [[[n, 0.5], []], {}], "ok": None} for n in range(2000)]},
    "unicode": {"text": "Zürich, 東京, 🎻, \u0000\t\"\\/\u2028", "näme": ["ß", "\U0010ffff"]},
    "member names": {"result": 1, "error": {"code": True}, "id": "7", "type_name": "", "a b-c": []},
    "1 MB": {"text": "x" * (1 << 20)},
}
# Number of requests in flight, as in the benchmark.
AT_ONCE = 64
# Seconds until a peer is killed: long enough for the slowest.
PATIENCE = 30
EXIT_WITHIN = 2


class Peer:
    def __init__(self, entry):
        self.lsp = entry["framing"] == "lsp"
        self.ids = 0
        listens = entry["framing"] in ("websocket", "http")
        command = entry["command"] + [THREADS] * listens
        self.process = subprocess.Popen(
            command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.guard = threading.Timer(PATIENCE, self.process.kill)
        self.guard.start()

    def connect(self):
        """Connects to the address that the peer prints, and returns a file to read and one to write."""
        host, port = self.process.stdout.readline().decode().strip().rsplit(":", 1)
        stream = socket.create_connection((host, int(port)))
        return stream.makefile("rb"), stream.makefile("wb")

    def prelude(self, kind):
        if kind == "lsp":
            self.call("initialize", [{"capabilities": {}}])
            self.send({"jsonrpc": "2.0", "method": "initialized", "params": {}})
        elif kind == "mcp":
            client = {"name": "check", "version": "0"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
            self.call("initialize", [params])
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, method, all_params):
        """Sends a request for each of the params, all before the first answer, and returns the results."""
        first = self.ids
        self.ids += len(all_params)
        self.send(
            *(
                {"jsonrpc": "2.0", "id": first + n, "method": method, "params": params}
                for n, params in enumerate(all_params)
            )
        )
        answers = {}
        for _ in all_params:
            answer = self.receive()
            answers[answer["id"]] = answer
        for answer in answers.values():
            if "result" not in answer:
                raise Wrong(f"{method}: {str(answer)[:200]}")
        return [answers[first + n]["result"] for n in range(len(all_params))]

    def send(self, *messages):
        frames = []
        for message in messages:
            body = json.dumps(message, ensure_ascii=False).encode()
            head = b"Content-Length: %d\r\n\r\n" % len(body) if self.lsp else b""
            frames.append(head + body + (b"" if self.lsp else b"\n"))
        self.process.stdin.write(b"".join(frames))
        self.process.stdin.flush()

    def receive(self):
        stdout = self.process.stdout
        line = stdout.readline()
        if self.lsp:
            length = None
            while line.strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
                line = stdout.readline()
            line = stdout.read(length) if length else b""
        if not line:
            raise Wrong(f"no answer: it ended, or took longer than {PATIENCE} s")
        return json.loads(line)

    def close(self):
        """Closes stdin, and returns how long the peer took to exit."""
        start = time.monotonic()
        self.process.stdin.close()
        try:
            code = self.process.wait(EXIT_WITHIN)
        except subprocess.TimeoutExpired:
            raise Wrong(f"still runs {EXIT_WITHIN} s after the end of stdin") from None
        if code != 0:
            raise Wrong(f"exits with {code}")
        return time.monotonic() - start

    def kill(self):
        self.guard.cancel()
        self.process.kill()
        self.process.wait()


class WebSocketPeer(Peer):
    def __init__(self, entry):
        super().__init__(entry)
        self.reader, self.writer = self.connect()
        self.writer.write(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.writer.flush()
        status, _ = read_head(self.reader)
        if status != 101:
            raise Wrong(f"expected an upgrade to WebSocket, got {status}")

    def send(self, *messages):
        for message in messages:
            body = json.dumps(message, ensure_ascii=False).encode()
            key = os.urandom(4)
            mask = int.from_bytes((key * (len(body) // 4 + 1))[: len(body)], "big")
            masked = (int.from_bytes(body, "big") ^ mask).to_bytes(len(body), "big")
            if len(body) < 126:
                length = bytes([0x80 | len(body)])
            elif len(body) < 1 << 16:
                length = b"\xfe" + len(body).to_bytes(2, "big")
            else:
                length = b"\xff" + len(body).to_bytes(8, "big")
            self.writer.write(b"\x81" + length + key + masked)
        self.writer.flush()

    def receive(self):
        first, length = self.reader.read(2) or (0, 0)
        if first != 0x81:
            raise Wrong(f"expected a text frame, got one that begins with {first:#x}")
        if length > 125:
            length = int.from_bytes(self.reader.read(2 if length == 126 else 8), "big")
        return json.loads(self.reader.read(length))


class HttpPeer(Peer):
    """Sends requests over one connection without waiting for responses, which HTTP allows."""

    def __init__(self, entry):
        super().__init__(entry)
        self.reader, self.writer = self.connect()

    def send(self, *messages):
        for message in messages:
            body = json.dumps(message, ensure_ascii=False).encode()
            self.writer.write(
                b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
        self.writer.flush()

    def receive(self):
        status, length = read_head(self.reader)
        if status != 200:
            raise Wrong(f"answered with {status}")
        return json.loads(self.reader.read(length))


def read_head(reader):
    """Reads the head of an HTTP response, and returns the status and the length of the body."""
    line = reader.readline()
    if not line:
        raise Wrong(f"no answer: it ended, or took longer than {PATIENCE} s")
    status, length = int(line.split()[1]), 0
    while line.strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        line = reader.readline()
    return status, length


PEERS = {"websocket": WebSocketPeer, "http": HttpPeer}


class Wrong(Exception):
    pass


def main():
    failed = 0
    for entry in json.loads((HERE / "peers.json").read_text()):
        name = entry["name"]
        if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
            continue
        if not installed(entry["command"]):
            print(f"{name}: skipped: not installed, see setup")
            continue
        peer = PEERS.get(entry["framing"], Peer)(entry)
        if entry["framing"] in PEERS:
            name += f" over {entry['framing']}"
        try:
            print(f"{name}: {check(peer, entry['prelude'])}")
        except (Wrong, OSError, ValueError) as error:
            failed += 1
            print(f"{name}: FAILED: {error}")
        finally:
            peer.kill()
    sys.exit(1 if failed else 0)


def installed(command):
    program = command[0]
    if program == "node" and not (HERE / "vscode-jsonrpc/node_modules").is_dir():
        return False
    return shutil.which(HERE / program if "/" in program else program) is not None


def check(peer, prelude):
    peer.prelude(prelude)
    for method in METHODS:
        for name, params in PAYLOADS.items():
            same(f"{method}, {name}", peer.call(method, [params]), [params])
        many = [{"n": n} for n in range(AT_ONCE)]
        same(f"{method}, {AT_ONCE} at once", peer.call(method, many), many)
    trips = ", ".join(f"{method} {round_trip(peer, method):.0f} µs" for method in METHODS)
    start = time.monotonic()
    peer.call("nap", many)
    naps = (time.monotonic() - start) * 1000
    exits = peer.close() * 1000
    return f"ok; round trips: {trips}; {AT_ONCE} naps at once {naps:.0f} ms; exit {exits:.0f} ms"


def same(what, got, sent):
    # Compare as text, because 1 equals True in Python.
    if json.dumps(got, sort_keys=True) != json.dumps(sent, sort_keys=True):
        raise Wrong(f"{what}: the result is not the params: {str(got)[:200]}")


def round_trip(peer, method):
    """Median of 200 round trips in µs, after 200 to warm up. Most of the time may be Python's own."""
    times = []
    for _ in range(400):
        start = time.perf_counter()
        peer.call(method, [PAYLOADS["small"]])
        times.append(time.perf_counter() - start)
    return statistics.median(times[200:]) * 1e6


main()
