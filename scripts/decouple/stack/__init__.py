"""A series as git commits, moved in transactions that a kill cannot split.

``engine.Stack`` moves it; the modules below each know one thing: ``trees`` reads trees, ``applier`` puts patches on a
tree without a checkout, ``commits`` turns headers into commits and writes them, ``worktree`` moves files, ``journal``
makes a move a transaction, ``export`` writes a commit as a patch, ``overlay`` lays ``third_device/`` over the series,
``series_update`` makes patch files of commits, ``edits`` has the verbs that change patches, ``branch`` converts to and
from a plain git branch.
"""
