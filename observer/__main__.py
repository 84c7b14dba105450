"""`python -m observer`: the same as the command `observer`."""

from __future__ import annotations

import sys

from observer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
