

import pathlib as _pathlib

for _file in _pathlib.Path("{{ test_folder }}").rglob("*"):
    if _file.suffix in (".json", ".txt", ".csv", ".toml", ".yaml", ".yml", ".xml", ".html", ".md"):
        _file.write_text("null")
