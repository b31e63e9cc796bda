"""Which files are CUDA's, where they go, and the rename-only patch for them.

Asks `inventory` what is CUDA's and what stage 1 needs; knows nothing of building.
:func:`decouple.relocate.plan.make_plan` is the entry point.
"""
