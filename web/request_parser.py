"""Reads requests strictly, so that a proxy before the server can never see other requests in the same bytes.

waitress reads leniently in places where servers differ from each other, and an attacker can hide a request in the
difference (RFC 9112, 11.2). Whatever two readers could take differently is answered with 400 here, and the connection
is closed.
"""

from __future__ import annotations

import re

from waitress.buffers import OverflowableBuffer
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import BadRequest

LONGEST_CHUNK_LINE = 256
"""Bytes of a chunk's size and its extensions."""

_FIRST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [!-~]+ HTTP/1\.[01]")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~\x80-\xff]*)?\r\n")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_SPACES = b" \t"


class StrictParser(HTTPRequestParser):  # type: ignore[misc]
    """One request, as it arrives."""

    def parse_header(self, header_plus: bytes) -> None:
        """Read the first line and the header. Raises ParsingError, which becomes a 400."""
        lines = header_plus.removesuffix(b"\r\n\r\n").split(b"\r\n")
        if not _FIRST_LINE.fullmatch(lines[0]):
            raise ParsingError("the first line is not METHOD TARGET HTTP/1.1")
        _check_fields(lines[1:], old=lines[0].endswith(b"1.0"))
        super().parse_header(header_plus)
        if self.chunked:
            self.body_rcv = Chunks(OverflowableBuffer(self.adj.inbuf_overflow))


def _check_fields(lines: list[bytes], *, old: bool) -> None:
    """Raises ParsingError where it is unclear which fields there are, or where the body ends. `old`: of HTTP/1.0."""
    if any(line.startswith((b" ", b"\t")) for line in lines):
        raise ParsingError("a header field goes on in a second line (obs-fold)")
    fields: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        fields.setdefault(name.lower().replace(b"_", b"-"), []).append(value.strip(_SPACES))
    lengths, codings = fields.get(b"content-length", []), fields.get(b"transfer-encoding", [])
    if lengths and codings:
        raise ParsingError("Content-Length and Transfer-Encoding are both given")
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(length) for length in lengths):
        raise ParsingError("Content-Length is not one number")
    if codings and (old or [coding.lower() for coding in codings] != [b"chunked"]):
        raise ParsingError("Transfer-Encoding is not chunked, or the request is of HTTP/1.0")
    if len(hosts := fields.get(b"host", [])) > 1 or not (hosts or old):
        raise ParsingError("there is not one Host header: send exactly one")


class Chunks:
    """The body of a request in chunks. Its lines end in CR LF, and nothing follows the last chunk (no trailers).

    It has the methods of waitress's ChunkedReceiver.
    """

    def __init__(self, buffer: OverflowableBuffer) -> None:
        self._buffer, self._line, self._left = buffer, b"", 0
        self._expected = self._size
        self.completed, self.error = False, None

    def __len__(self) -> int:
        return int(self._buffer.__len__())

    def received(self, data: bytes) -> int:
        """Take what belongs to the body; returns how many bytes that were."""
        place = 0
        while place < len(data) and not (self.completed or self.error):
            if self._left:
                part = data[place : place + self._left]
                self._buffer.append(part)
                self._left -= len(part)
            else:
                end = data.find(b"\n", place)
                part = data[place : len(data) if end < 0 else end + 1]
                self._add(part)
            place += len(part)
        return place

    def _add(self, part: bytes) -> None:
        """Take a part of a line."""
        self._line += part
        if len(self._line) > LONGEST_CHUNK_LINE:
            self.error = BadRequest("the line of a chunk is too long")
        elif part.endswith(b"\n"):
            line, self._line = self._line, b""
            self._expected(line)

    def _size(self, line: bytes) -> None:
        if found := _CHUNK_LINE.fullmatch(line):
            self._left = int(found[1], 16)
            self._expected = self._end if self._left else self._last
        else:
            self.error = BadRequest("a chunk has no size, or its line does not end in CR LF")

    def _end(self, line: bytes) -> None:
        self._expected = self._size
        if line != b"\r\n":
            self.error = BadRequest("a chunk is not as long as it says")

    def _last(self, line: bytes) -> None:
        self.completed = line == b"\r\n"
        if not self.completed:
            self.error = BadRequest("fields follow the last chunk: trailers are not accepted")

    def getfile(self) -> object:
        """The body as a file."""
        return self._buffer.getfile()

    def getbuf(self) -> OverflowableBuffer:
        """The body's buffer."""
        return self._buffer
