"""Importing this prints the state of the board in plain words and lets the firmware run on.

    mpremote resume exec "import wakeboard.diag"

It is imported anew each time, so that it prints each time.
"""

import sys

import wakeboard
from wakeboard import report

selftest = report.selftest

wakeboard.diag = sys.modules.pop(__name__)
report.show()
