"""The contract of a third-party PyTorch backend.

It runs by ``pytest -p third_device_contract.plugin --pyargs third_device_contract --device NAME``.

``items.toml`` lists what PyTorch expects and where upstream says so; the ``test_*.py`` beside it check it; the plugin
draws the report card.
"""
