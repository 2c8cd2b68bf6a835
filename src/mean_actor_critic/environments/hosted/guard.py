"""The parent of a worker, and what ends with it: everything that its environments have started, wherever that went.

    main process ── guard ── worker ── processes of environments, and theirs

A guard waits for its worker to end, or for the main process to want it or be gone, however that went; then it ends
whatever is left. On Linux orphans fall to it (`PR_SET_CHILD_SUBREAPER`), so that no process gets away by a session of
its own, or because its parent has ended: when the guard has no children any more, there are none. On other systems it
ends the worker's own session.

It is forked before anything is imported that is large, or has threads; of its own, because a thread of the worker could
not run while an environment holds Python's lock.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

ENDING_SECONDS = 2.0  # for what is killed to be gone, some of it perhaps only started meanwhile
_LOOK_SECONDS = 1.0  # between looks at whether the main process is there: another may hold its end of the pipe
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36  # of Linux
_NO_DUMP = 1  # byte: the smallest limit for core dumps, which unlike 0 also holds where these go to a program


def guard() -> None:
    """Fork: return in the worker, and guard it in the parent. The last argument is the main process's pipe to us."""
    life, main, own = int(sys.argv.pop()), os.getppid(), os.getpid()
    gets_orphans = _process_control(_PR_SET_CHILD_SUBREAPER, 1)
    worker = os.fork()
    if worker:
        _stay(worker, life, main, gets_orphans)
    os.setsid()  # an environment that signals its whole group does not mean us
    _process_control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != own:
        os._exit(1)
    os.close(life)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    with contextlib.suppress(ValueError):  # where the hard limit is below
        resource.setrlimit(resource.RLIMIT_CORE, (_NO_DUMP, hard))  # nobody waits while a crash is written to disk


def _process_control(option: int, value: int) -> bool:
    """Whether Linux's prctl did it. Where there is none, or none is allowed, we do without."""
    with contextlib.suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0)
    return False


def _stay(worker: int, life: int, main: int, gets_orphans: bool) -> NoReturn:
    """Wait for an end, make it everybody's, and end as the worker did."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # of a batch system, to all processes of a job: we go after the others
    # nobody shall wait for our ends of the worker's pipes to close
    os.closerange(0, life)
    os.closerange(life + 1, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(life, select.POLLIN)
    poll.register(woken, select.POLLIN)
    code = _reaped(worker)
    while code is None and os.getppid() == main:
        ready = dict(poll.poll(1000 * _LOOK_SECONDS))
        if life in ready:
            break
        if woken in ready:
            os.read(woken, 4096)
        code = _reaped(worker)
    _leave(_ended(worker, code, gets_orphans))


def _reaped(worker: int) -> int | None:
    """The worker's exit code as `subprocess` has it, once it has ended; orphans that have are let go.

    Raises:
        ChildProcessError: there is nobody left.
    """
    while True:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == worker:
            return os.waitstatus_to_exitcode(status)
        if not process:
            return None


def _ended(worker: int, code: int | None, gets_orphans: bool) -> int:
    """The worker's exit code, when it and all that came of it have ended, or will not."""
    until = time.monotonic() + ENDING_SECONDS
    if code is None or not gets_orphans:
        _kill(os.killpg, worker)
    with contextlib.suppress(ChildProcessError):  # there is nobody left
        while time.monotonic() < until:
            now = _reaped(worker)
            code = now if code is None else code
            for process in _descendants():
                _kill(os.kill, process)
            time.sleep(0.002)
    return 1 if code is None else code


def _kill(send: Callable[[int, int], None], whom: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(whom, signal.SIGKILL)


def _descendants() -> list[int]:
    """The processes below this one; as far as the system tells."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), []))
    for process in found:  # which grows meanwhile
        found += children.get(process, [])
    return found


def _leave(code: int) -> NoReturn:
    """End with an exit code, or by the signal that it stands for."""
    if code < 0:
        _process_control(_PR_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code % 256)
