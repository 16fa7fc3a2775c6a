"""Freezes the firmware into a MicroPython build; frozen code takes no heap.

In a board's manifest: include("path/to/wakebridge/firmware/manifest.py"). A main.py of two lines
starts it: import wakeboard; wakeboard.run()
"""

metadata(version="0.1.0", description="Wake-timer board: one countdown, one wake line")
package("wakeboard", opt=3)
package(
    "wakewire",
    ("__init__.py", "cbor.py", "codes.py", "errors.py", "framing.py", "limits.py", "text.py"),
    base_path="../protocol",
    opt=3,
)
