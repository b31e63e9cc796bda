"""Inter-file decoupling: which files are CUDA's, where they go, and the rename-only patch that moves them.

Knows rules and the include graph of stage 1; knows nothing of building. :func:`decouple.relocate.plan.make_plan` is
the entry point.
"""
