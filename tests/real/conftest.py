"""What the tests on the real source share."""

from tests.support.cached_trees import cached_trees_stay  # noqa: F401 - a fixture of every test here
from tests.support.cuda_torch import cuda_python  # noqa: F401 - and one of those on the simulated device
