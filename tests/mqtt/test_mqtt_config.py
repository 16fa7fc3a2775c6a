"""The configuration of a connection refuses what no broker would take, naming the field."""

from pathlib import Path

import msgspec
import pytest

from wakebridge.mqttbus.config import MqttConfig


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"port": 0}, "port"),
        ({"port": 65_536}, "port"),
        ({"base": ""}, "base"),
        ({"base": "a/"}, "base"),
        ({"base": "/a"}, "base"),
        ({"base": "a/+/b"}, "base"),
        ({"base": "a#"}, "base"),
        ({"base": "$SYS"}, "base"),
        ({"keepalive_s": 4}, "keepalive_s"),
        ({"session_expiry_s": -1}, "session_expiry_s"),
        ({"password_file": "x"}, "username"),
        ({"tls": True, "tls_cert_file": "x"}, "tls_key_file"),
        ({"tls_ca_file": "x"}, "tls = true"),
        ({"protocol": "3.1"}, "protocol"),
        ({"pasword": "x"}, "pasword"),
        ({"host": ""}, "host"),
    ],
)
def test_a_bad_value_is_refused_and_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=named):
        msgspec.convert(fields, MqttConfig)


def test_the_password_is_the_first_line_of_its_file_and_never_in_the_configuration(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "password"
    secret.write_text("correct horse\r\nanother line\n")
    config = MqttConfig(username="wakebridge", password_file=str(secret))
    assert config.read_password() == "correct horse"
    assert "correct horse" not in repr(config)
