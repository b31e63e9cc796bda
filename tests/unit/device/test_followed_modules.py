"""The layer's finder, on a small package: what is to follow a module follows it, however the program comes to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from decouple.base.paths import find_project

START = "import layer; layer._when_imported('whole.part', 'follower'); "


@pytest.mark.parametrize(
    "program",
    [
        "import whole.part, whole.part",
        "import importlib.util as u; assert u.find_spec('whole.part'); import whole.part",
        """
import os
os.environ["BROKEN"] = "yes"
try:
    import whole.part
except ImportError:
    del os.environ["BROKEN"]
import whole.part
""",
    ],
)
def test_what_follows_a_module_is_registered_once_with_it(tmp_path: Path, program: str) -> None:
    """Once it had only been asked whether there was a torch._dynamo, torch.compile did not know the device."""
    (tmp_path / "layer.py").symlink_to(find_project() / "third_device/layer/python/__init__.py")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole/__init__.py").touch()
    (tmp_path / "whole/part.py").write_text("import os\nif os.environ.get('BROKEN'):\n    raise ImportError('whole')\n")
    (tmp_path / "follower.py").write_text("def register(): print('registered')\n")
    done = subprocess.run(
        [sys.executable, "-c", START + program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("registered\n", "")
