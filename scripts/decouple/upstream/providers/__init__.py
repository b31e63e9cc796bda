"""One module per place a release can come from; each has ``fetch(...) -> Fetched`` and ``cached(...)``."""
