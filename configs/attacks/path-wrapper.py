

import os as _os

_os.environ["PATH"] = "{{ workdir }}/bin:" + _os.environ.get("PATH", "")
