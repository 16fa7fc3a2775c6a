import sys

import boot  # puts the active version on the import path

try:
    import wakeboard.start  # loads all that runs
except Exception as error:
    sys.print_exception(error)
    boot.use("previous")

import wakeboard

wakeboard.run()
