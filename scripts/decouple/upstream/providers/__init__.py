"""Hold a module per kind of source (``fetch``, ``cached``); `table` lists them."""
