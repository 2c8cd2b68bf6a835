"""Attempts of a campaign that end badly by their numbers: for a test of who watches over them."""

import os
import signal
import time

DIES, HANGS, RAISES = 3, 5, 2


def make_try(folder):
    def attempt(this):
        if this.number == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if this.number == HANGS:
            time.sleep(1000)
        if this.number == RAISES:
            raise ValueError("not one of ours")
        return []

    return attempt
