"""Secrets are in files of their own, so that a configuration can be shown to anybody."""

from pathlib import Path


def read_secret(path: str) -> str:
    """Return the first line of a file. Raises OSError, or ValueError when nothing is in it."""
    try:
        secret = Path(path).read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8") from None
    if not secret.isprintable():
        raise ValueError(f"the first line of {path} holds control characters")
    if not secret:
        raise ValueError(f"{path} holds nothing in its first line")
    return secret
