"""`python trap.py EVENT DELAY FILE -- WORDS …` is `mac WORDS …` that kills itself amid the EVENT-th writing file call.

A file call is one below the working folder that opens a file to write, renames, removes, or makes a folder; Python
tells an audit hook about each before it takes place. DELAY seconds after that the process is killed: what lies between
two calls, a write or a sync, is met by a short delay. With EVENT 0 nothing is killed, and FILE gets the number of
events.
"""

import os
import sys
import threading
import time

del sys.path[0]  # where Python has put the folder of this file

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


def set_trap(event: int, delay: float, file: str) -> None:
    """Kill this process amid a file call, or count them all."""
    folder = os.getcwd()
    seen = 0

    def kill() -> None:
        time.sleep(delay)
        os.kill(os.getpid(), 9)

    def look(name: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if name == "open":
            _, _, flags = arguments
            if not (isinstance(flags, int) and flags & WRITING):
                return
        elif name not in EVENTS:
            return
        path = arguments[0]
        if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(folder):  # type: ignore[arg-type]
            return
        seen += 1
        if seen == event:
            if delay:
                threading.Thread(target=kill, daemon=True).start()
            else:
                kill()
        elif not event:
            descriptor = counter
            os.pwrite(descriptor, str(seen).encode(), 0)

    counter = -1 if event else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.addaudithook(look)


if __name__ == "__main__":
    event, delay, file, _, *words = sys.argv[1:]
    set_trap(int(event), float(delay), file)
    sys.argv = ["mac", *words]
    from mean_actor_critic.cli.main import main

    main(words)
