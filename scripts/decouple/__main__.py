"""``python -m decouple``."""

from decouple.cli import main

raise SystemExit(main())
