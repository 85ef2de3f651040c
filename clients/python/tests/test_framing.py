"""Decoding of both framings: whole, byte by byte, and split at each position."""

from __future__ import annotations

import doctest
import unittest
from typing import Any

import duet_rpc.client
import duet_rpc.errors
import duet_rpc.framing
import duet_rpc.peer
from duet_rpc import Decoder, FrameError, Framing, MessageTooLargeError, encode

FAULT = "fault"
LIMIT = 64

# Framing, bytes, and the decoded values and faults.
ROWS: list[tuple[Framing, bytes, list[Any]]] = [
    ("ndjson", b"1\n2\r\n\n \r\n[3]\n", [1, 2, [3]]),
    ("ndjson", b'{"a":"\xc3\xbc"}\n4', [{"a": "ü"}, 4]),
    ("ndjson", b"hello\n1\n", [FAULT, 1]),
    ("ndjson", b"hello\nworld\n1\nx\n", [FAULT, 1, FAULT]),
    ("ndjson", b'"\xff"\n1\n', [FAULT, 1]),
    ("ndjson", b"NaN\n1\n-Infinity\n2\n", [FAULT, 1, FAULT, 2]),
    ("ndjson", b"x" * 65 + b"\n1\n", [FAULT, 1]),
    ("ndjson", b"x" * 6500, [FAULT]),
    ("ndjson", b'"' + b"x" * 62 + b'"\n1\n', ["x" * 62, 1]),
    ("ndjson", b"{", [FAULT]),
    ("ndjson", b"", []),
    ("lsp", b"Content-Length: 1\r\n\r\n1Content-Length: 3\r\n\r\n[2]", [1, [2]]),
    ("lsp", b"content-LENGTH:1\r\nContent-Type: a; b\r\n\r\n1", [1]),
    ("lsp", b"X-A: b\r\nContent-Length: 1 \r\n\r\n1", [1]),
    ("lsp", b"stray print\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"warning: stray\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: x\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: -1\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 9999999999999999\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Type: x\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    # A length that is too small, and one that is too large.
    ("lsp", b"Content-Length: 4\r\n\r\n[1,2]Content-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 9\r\n\r\n[1,2]Content-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 0\r\n\r\nContent-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 65\r\n\r\n" + b"x" * 65 + b"Content-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 1000000\r\n\r\n" + b"x" * 99, [FAULT, FAULT]),
    ("lsp", b"x" * 20_000 + b"Content-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"X: " + b"x" * 20_000 + b"Content-Length: 1\r\n\r\n1", [FAULT, 1]),
    ("lsp", b"Content-Length: 3\r\n\r\n[1", [FAULT]),
    ("lsp", b"Content-Len", [FAULT]),
    ("lsp", b"Content-Length: 3\r\n\r\nNaNContent-Length: 1\r\n\r\n1", [FAULT, 1]),
]


def decode(framing: Framing, *pieces: bytes) -> list[Any]:
    """Decode the pieces of a stream."""
    decoder = Decoder(framing, LIMIT)
    found = [it for piece in pieces for it in decoder.feed(piece)]
    found.extend(decoder.finish())
    return [FAULT if isinstance(it, FrameError) else it.value for it in found]


class Framings(unittest.TestCase):
    """The decoder and the encoder."""

    def test_the_same_bytes_give_the_same_messages_however_they_are_split(self) -> None:
        for framing, stream, expected in ROWS:
            # A fault that the end of the stream shows is not told twice.
            whole = decode(framing, stream)
            self.assertEqual(whole[: len(expected)], expected[: len(whole)], stream[:80])
            self.assertEqual([it for it in whole if it != FAULT], [it for it in expected if it != FAULT])
            self.assertEqual(decode(framing, *(bytes([byte]) for byte in stream)), whole, stream[:80])
            for at in range(min(len(stream), 200)):
                self.assertEqual(decode(framing, stream[:at], stream[at:]), whole, (at, stream[:80]))

    def test_memory_is_bounded_by_the_limits(self) -> None:
        endless: list[tuple[Framing, bytes]] = [
            ("ndjson", b""),
            ("lsp", b""),
            ("lsp", b"X: "),
            ("lsp", b"Content-Length: 999999999\r\n\r\n"),
        ]
        for framing, start in endless:
            decoder = Decoder(framing, LIMIT)
            list(decoder.feed(start))
            for _ in range(1000):
                list(decoder.feed(b"x" * 100))
                self.assertLess(decoder.kept, 10_000)

    def test_deep_and_long_values_are_faults(self) -> None:
        for text in (b"[" * 200_000 + b"]" * 200_000, b"1" * 5_000):
            found = list(Decoder("ndjson").feed(text + b"\n1\n"))
            self.assertIsInstance(found[0], FrameError)
            self.assertEqual(len(found), 2)

    def test_faults_do_not_show_the_payload(self) -> None:
        for line in (b"secret\n", b'"\xffsecret"\n', b"[secret\n"):
            self.assertNotIn("secret", str(next(Decoder("ndjson").feed(line))))

    def test_messages_that_cannot_be_sent_are_refused(self) -> None:
        self.assertEqual(encode("lsp", "ü", 4), b'Content-Length: 4\r\n\r\n"\xc3\xbc"')
        for message, error in ((object(), TypeError), (float("nan"), ValueError), ("\ud800", ValueError)):
            with self.assertRaises(error):
                encode("ndjson", message)
        with self.assertRaises(MessageTooLargeError):
            encode("ndjson", "üü", 5)

    def test_examples_in_the_documentation_work(self) -> None:
        for module in (duet_rpc.framing, duet_rpc.errors, duet_rpc.client, duet_rpc.peer):
            self.assertEqual(doctest.testmod(module).failed, 0)
