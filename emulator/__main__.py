"""`python -m emulator`, the same as `longhaul`."""

import sys

from .cli import main

sys.exit(main())
