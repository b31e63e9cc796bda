"""``python -m simcuda``."""

import sys

from simcuda.cli import main

sys.exit(main())
