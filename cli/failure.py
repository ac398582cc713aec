"""How every command says that its input is bad: one line per problem, exit code 2; knows no command."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from policy.errors import FormatError, InvalidError

BAD_INPUT = 2


@contextmanager
def report_failures() -> Iterator[None]:
    """Turn the errors that a person can mend into `error: …` lines and exit code 2, without a traceback."""
    try:
        yield
    except InvalidError as invalid:
        _fail(*(str(error) for error in invalid.errors))
    except FormatError as malformed:
        _fail(str(malformed))


def _fail(*sentences: str) -> None:
    for sentence in sentences:
        print(f"error: {sentence}", file=sys.stderr)
    sys.exit(BAD_INPUT)
