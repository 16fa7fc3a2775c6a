import boot  # noqa: F401 - puts the active version on the import path

import wakeboard

wakeboard.run()
