"""Text of the CBOR subset: strict UTF-8, which MicroPython does not check by itself."""

from wakewire import CborError


def read_text(raw: bytes) -> str:
    """Return the text of a string's bytes. Raises CborError when they are not UTF-8."""
    try:
        text = str(raw, "utf-8")
        # MicroPython lets overlong forms, surrogates and numbers beyond U+10FFFF through.
        for char in text:
            code = ord(char)
            if 0xD800 <= code < 0xE000 or chr(code) != char:
                break
        else:
            return text
    except ValueError:  # UnicodeError is one
        pass
    raise CborError("text")
