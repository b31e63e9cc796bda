"""Which files of a tree are CUDA's and which stage 1 needs: the rules as data.

The package relocate turns it into moves and the package census judges by it; neither knows the other.
"""
