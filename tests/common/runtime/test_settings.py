"""Settings from the environment and secrets from files."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings.exceptions import SettingsError

from common.runtime.settings import ServiceSettings

TOKEN = "t" * 32


class Probe(ServiceSettings):
    service = "probe"
    port: int = Field(default=8001, description="Port to listen on.")
    seed: SecretStr | None = Field(default=None, description="A secret of the probe.")


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_DATA_DIR", "/srv/tacit")
    monkeypatch.setenv("TACIT_PORT", "9")
    monkeypatch.setenv("TACIT_UNHEARD_OF", "9")
    settings = Probe()
    assert settings.database() == "sqlite:////srv/tacit/probe.db"
    assert settings.port == 9
    assert Probe(port=10).port == 10
    monkeypatch.setenv("TACIT_DATABASE_URL", "postgresql://u:pass4711@host/db")
    assert Probe().database() == "postgresql://u:pass4711@host/db"
    assert "4711" not in repr(Probe())


@pytest.mark.parametrize("name", ["OPERATOR_TOKEN", "SEED", "DATABASE_URL"])
def test_every_secret_may_come_from_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "secret"
    file.write_text(TOKEN + "\n")
    monkeypatch.setenv(f"TACIT_{name}_FILE", str(file))
    secret = getattr(Probe(), name.lower())
    assert secret.get_secret_value() == TOKEN
    assert TOKEN not in repr(Probe())
    monkeypatch.setenv(f"TACIT_{name}", TOKEN)
    with pytest.raises(SettingsError, match="both set"):
        Probe()
    monkeypatch.delenv(f"TACIT_{name}")
    monkeypatch.setenv(f"TACIT_{name}_FILE", str(tmp_path / "absent"))
    with pytest.raises(SettingsError, match="cannot be read"):
        Probe()


def test_what_is_no_secret_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "port"
    file.write_text("9")
    monkeypatch.setenv("TACIT_PORT_FILE", str(file))
    assert Probe().port == 8001


def test_refusals_do_not_repeat_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_OPERATOR_TOKEN", "short4711")
    with pytest.raises(ValidationError) as refused:
        Probe()
    assert "4711" not in str(refused.value)
    with pytest.raises(ValidationError):
        Probe(operator_token=TOKEN, tls_key="key.pem")


@pytest.mark.parametrize(
    "setting",
    [{"header_timeout_s": "inf"}, {"header_timeout_s": 2e10}, {"max_body_bytes": 1 << 61}],
)
def test_what_overflows_a_date_or_a_limit_of_the_system_is_refused(setting: dict[str, Any]) -> None:
    (name,) = setting
    with pytest.raises(ValidationError, match=name):
        Probe(**setting)
    assert Probe(header_timeout_s=1e10, max_body_bytes=1 << 60).max_body_bytes == 1 << 60
