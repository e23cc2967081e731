"""``python -m hikyaku run ...``: the command ``hikyaku``, for those who did not install it."""

import sys

from hikyaku._command import main

sys.exit(main())
