from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.lines import LineFramer, LineTooLongError


@given(
    lines=st.lists(st.binary(min_size=1, max_size=40).filter(lambda b: b"\n" not in b and b.strip())),
    cuts=st.lists(st.integers(0, 500)),
)
def test_chunks_of_any_size_give_the_same_lines(lines: list[bytes], cuts: list[int]) -> None:
    """Where the network cuts the stream makes no difference."""
    data = b"".join(line + b"\n" for line in lines)
    framer = LineFramer()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    got = [line for start, end in itertools.pairwise(edges) for line in framer.feed(data[start:end])]
    assert got == lines
    assert not framer.unfinished


def test_a_line_of_several_mebibytes_is_read_whole() -> None:
    """An object may be larger than any buffer in between."""
    framer = LineFramer()
    for _ in range(5 * 64):
        assert framer.feed(b"x" * 16384) == []
    assert framer.unfinished
    assert [len(line) for line in framer.feed(b"\n")] == [5 * 1024 * 1024]


def test_a_line_beyond_the_limit_is_refused() -> None:
    """A stream without newlines must not fill the memory."""
    framer = LineFramer(limit=10)
    framer.feed(b"12345")
    with pytest.raises(LineTooLongError, match="longer than 10 bytes"):
        framer.feed(b"678901")


def test_empty_lines_are_no_lines() -> None:
    """Keep-alive newlines carry nothing and leave nothing unfinished."""
    framer = LineFramer()
    assert framer.feed(b"\r\n\n  \na\n") == [b"a"]
    assert not framer.unfinished
