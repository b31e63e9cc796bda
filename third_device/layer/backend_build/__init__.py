"""Build a backend on the layer.

It has operator code from YAML, and the arguments of ``setup()``. Used by the ``setup.py`` of every backend, outside the
``decouple`` package: a vendor's checkout may have only ``third_device/``. Needs PyTorch (its torchgen), setuptools and
PyYAML.
"""
