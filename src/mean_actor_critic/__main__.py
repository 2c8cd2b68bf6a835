"""`python -m mean_actor_critic` is `mac`."""

import contextlib
import os
import sys

# Python puts the working folder first on the path of `python -m`, and libraries look there for optional modules: JAX
# would run a stranger's libtpu.py. An environment that the user names is found there all the same, by its worker.
with contextlib.suppress(FileNotFoundError):  # the working folder is gone, and not on the path
    if sys.path[0] == os.getcwd():
        del sys.path[0]

from mean_actor_critic.cli.main import main

main()
