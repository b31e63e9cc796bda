"""One module per place that a release can come from, each with ``fetch`` and ``cached``; `table` lists them."""
