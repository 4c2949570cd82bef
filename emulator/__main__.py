"""`python -m emulator`, the same as `longhaul`."""

import sys

from emulator.cli.main import main

sys.exit(main())
