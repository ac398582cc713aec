from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, SecretStr, model_validator

from policy.errors import FieldError, InvalidError
from runtime.settings import Names, Row, Seconds, Settings, describe, load

PREFIX = "GPU_TENURE_REAPER_"


class Example(Settings):
    """Settings as a component has them."""

    prometheus_url: str = Field(description="Where Prometheus is.", examples=["http://prometheus:9090"])
    cycle: Seconds = Field(60, ge=10, description="Time between two cycles.", examples=["60s"])
    profile: Literal["observe", "warn", "enforce"] = "observe"
    excluded: Names = ()
    dry_run: bool = True
    limit: int = Field(5, ge=1, examples=["5"])
    token: SecretStr | None = Field(None, min_length=8)


class Related(Settings):
    """Settings that must fit each other."""

    low: int = 1
    high: int = 2

    @model_validator(mode="after")
    def _ordered(self) -> Related:
        if self.low > self.high:
            raise InvalidError([FieldError("--low", "must not be above --high")])
        return self


def errors_of(
    flags: dict[str, object], file: Path | None = None, environ: dict[str, str] | None = None
) -> list[str]:
    """The sentences of what is wrong."""
    with pytest.raises(InvalidError) as caught:
        load(Example, flags, file, PREFIX, environ or {})
    return [str(error) for error in caught.value.errors]


URL = {f"{PREFIX}PROMETHEUS_URL": "http://env"}


@pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
def test_a_flag_wins_over_the_environment_and_that_over_the_file(suffix: str, tmp_path: Path) -> None:
    """Each layer decides what the one before did not give; spelling and file format make no difference."""
    content = {
        "yaml": "prometheusUrl: http://file\ncycle: 90s\ndry-run: false\nexcluded: [a, b]\nlimit: 7\n",
        "toml": 'prometheusUrl="http://file"\ncycle="90s"\ndry-run = false\nexcluded = ["a","b"]\nlimit=7\n',
        "json": '{"prometheusUrl":"http://file","cycle":"90s","dry-run":false,"excluded":["a","b"],"limit":7}',
    }
    file = tmp_path / f"settings.{suffix}"
    file.write_text(content[suffix])
    environ = {**URL, f"{PREFIX}CYCLE": "2m", "GPU_TENURE_WEBHOOK_PORT": "not ours"}
    loaded = load(Example, {"cycle": "30s", "limit": None}, file, PREFIX, environ)
    assert loaded == Example(
        prometheus_url="http://env", cycle=30, profile="observe", excluded=("a", "b"), dry_run=False, limit=7
    )


def test_lists_in_the_environment_are_separated_by_commas() -> None:
    """JSON works too."""
    for text in ("a, b,", '["a","b"]'):
        assert load(Example, {}, None, PREFIX, {**URL, f"{PREFIX}EXCLUDED": text}).excluded == ("a", "b")


def test_everything_wrong_is_told_at_once_with_its_ways_and_an_example(tmp_path: Path) -> None:
    """A person who reads it knows what to change and where."""
    file = tmp_path / "s.yaml"
    file.write_text("cycel: 60s\nlimit: 0\n")
    environ = {f"{PREFIX}CYCLE": "5s", f"{PREFIX}DRY_RUN": "maybe", f"{PREFIX}PROFIL": "warn"}
    assert errors_of({"profile": "loud"}, file, environ) == [
        f"{file}: cycel: there is no such setting; did you mean cycle?",
        f"{PREFIX}PROFIL: there is no such setting; did you mean {PREFIX}PROFILE?",
        f"--prometheus-url: is required: set {ways('prometheus_url')}, such as http://prometheus:9090",
        f"--cycle: must be at least 10s, such as 60s; got '5s' (set by {PREFIX}CYCLE); set {ways('cycle')}",
        (
            "--profile: must be one of 'observe', 'warn' or 'enforce'; got 'loud' (set by --profile); "
            f"set {ways('profile')}"
        ),
        f"--dry-run: must be true or false; got 'maybe' (set by {PREFIX}DRY_RUN); set {ways('dry_run')}",
        f"--limit: must be at least 1, such as 5; got '0' (set by limit in {file}); set {ways('limit')}",
    ]


def ways(name: str) -> str:
    """All ways to set a field, as a message names them."""
    return f"--{name.replace('_', '-')}, {PREFIX}{name.upper()} or {name} in the settings file"


def test_a_malformed_duration_says_what_one_looks_like() -> None:
    """The message of the format itself is kept, and has examples enough."""
    (error,) = errors_of({"cycle": "soon", "prometheus_url": "x"})
    assert error.startswith("--cycle: must be a duration such as")
    assert error.count("such as") == 1
    assert "got 'soon' (set by --cycle)" in error


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    """Neither from a flag or variable nor by a file that cannot be read, nor by printing the settings."""
    (error,) = errors_of({}, None, {**URL, f"{PREFIX}TOKEN": "hunter2"})
    assert "hunter2" not in error
    assert "a value that is not shown" in error
    loaded = load(Example, {"token": "hunter2hunter2"}, None, PREFIX, URL)
    assert "hunter2" not in repr(loaded)
    file = tmp_path / "s.yaml"
    file.write_text("token: 'hunter2\n")
    assert not any("hunter2" in error for error in errors_of({}, file, URL))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("s.yaml", None, "cannot be read: No such file or directory"),
        ("s.ini", "a=b", "the name must end in .yaml, .yml, .toml or .json"),
        ("s.yaml", "a: [", "not valid YAML at line"),
        ("s.yaml", "- a", "must hold settings as keys and values"),
        ("s.json", "{", "cannot be read: "),
        ("s.toml", "=", "cannot be read: "),
        ("s.yaml", "dryRun: true\ndry-run: false", "holds the same setting twice"),
    ],
    ids=[
        "missing",
        "of another kind",
        "broken YAML",
        "a list",
        "broken JSON",
        "broken TOML",
        "twice the same",
    ],
)
def test_a_file_that_is_no_settings_file_is_one_error(
    name: str, content: str | None, told: str, tmp_path: Path
) -> None:
    """It is told with the file's name, next to whatever else is wrong."""
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    first, *others = errors_of({}, file)
    assert first.startswith(f"{file}: ")
    assert told in first
    assert any("--prometheus-url: is required" in error for error in others)


def test_variables_of_a_service_of_the_same_name_are_not_settings() -> None:
    """The kubelet adds them to every pod of the namespace; a port of ours keeps its meaning."""

    class Ported(Settings):
        """Settings with a port."""

        port: int = 8443

    links = {
        "X_SERVICE_HOST": "10.0.0.1",
        "X_SERVICE_PORT": "443",
        "X_SERVICE_PORT_HTTPS": "443",
        "X_PORT": "tcp://10.0.0.1:443",
        "X_PORT_443_TCP": "tcp://10.0.0.1:443",
        "X_PORT_443_TCP_PROTO": "tcp",
        "X_PORT_443_TCP_PORT": "443",
        "X_PORT_443_TCP_ADDR": "10.0.0.1",
    }
    assert load(Ported, {}, None, "X_", links).port == 8443
    assert load(Ported, {}, None, "X_", {**links, "X_PORT": "9443"}).port == 9443
    with pytest.raises(InvalidError, match="X_SERVICE_PORT"):
        load(Ported, {}, None, "X_", {"X_SERVICE_PORT": "443"})


def test_settings_that_contradict_each_other_name_their_flags() -> None:
    """A validator over several fields brings errors with paths of its own."""
    with pytest.raises(InvalidError, match=r"^--low: must not be above --high$"):
        load(Related, {"low": 3}, None, "X_", {})


def test_constructed_directly_settings_do_not_look_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests and tools get what they write."""
    monkeypatch.setenv("HIGH", "9")
    monkeypatch.setenv("GPU_TENURE_HIGH", "9")
    assert Related().high == 2


def test_the_table_of_settings_is_for_the_documentation() -> None:
    """One row per field with all of its ways."""
    rows = describe(Example, PREFIX)
    assert [row.key for row in rows] == list(Example.model_fields)
    assert rows[1] == Row("--cycle", f"{PREFIX}CYCLE", "cycle", "60s", "60s", "Time between two cycles.")
    assert rows[0].default == "required"
