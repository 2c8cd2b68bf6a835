"""Options and set-up shared by all tests."""

import os

os.environ.setdefault("NO_COLOR", "1")

from mean_actor_critic.training import devices

# before any test module uses JAX: tests show what users get, two devices on a machine of two cores
devices.prepare()


def pytest_addoption(parser):
    parser.addoption("--n", type=int, default=3, help="how many times the kill -9 test kills a run")
