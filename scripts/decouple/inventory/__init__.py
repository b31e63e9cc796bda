"""Which files of a tree are CUDA's and which stage 1 needs: the rules as data.

The room relocate turns it into moves and the room census judges by it; neither knows the other.
"""
