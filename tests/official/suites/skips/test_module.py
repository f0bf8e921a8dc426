import pytest

pytest.skip("module: whole - skip", allow_module_level=True)
