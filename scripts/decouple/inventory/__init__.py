"""Which files of an upstream tree are CUDA's and which stage 1 needs: the rules as data, and what they say of one tree.

`relocate` turns it into moves and `census` judges by it; neither knows the other.
"""
