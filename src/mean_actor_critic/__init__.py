"""Mean Actor-Critic and its rivals: whole studies of discrete-action policy gradients in one compiled program.

    import mean_actor_critic as mac

    run = mac.train("CartPole-v0", algorithm="mac", trials=100, episodes=200, seed=0)
    run.returns                          # [trials, episodes]
    agent = run.agent(trial=0)
    action, _ = agent.predict(observation)

Names are imported when first used, so that `import mean_actor_critic` and `mac --help` do not wait for JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mean_actor_critic._version import __version__ as __version__

if TYPE_CHECKING:
    from mean_actor_critic.environments.catalogue import check as check
    from mean_actor_critic.errors import EnvironmentFault as EnvironmentFault
    from mean_actor_critic.errors import InputError as InputError
    from mean_actor_critic.errors import Interrupted as Interrupted
    from mean_actor_critic.errors import MacError as MacError
    from mean_actor_critic.progress import STOP as STOP
    from mean_actor_critic.reports.write import report as report
    from mean_actor_critic.runs.agent import Agent as Agent
    from mean_actor_critic.runs.evaluate import evaluate as evaluate
    from mean_actor_critic.runs.run import Run as Run
    from mean_actor_critic.runs.train import resume as resume
    from mean_actor_critic.runs.train import train as train
    from mean_actor_critic.runs.watch import watch as watch
    from mean_actor_critic.studies.search import sweep as sweep
    from mean_actor_critic.studies.sweep import Sweep as Sweep

_HOMES = {
    "Agent": "runs.agent",
    "EnvironmentFault": "errors",
    "InputError": "errors",
    "Interrupted": "errors",
    "MacError": "errors",
    "Run": "runs.run",
    "STOP": "progress",
    "Sweep": "studies.sweep",
    "check": "environments.catalogue",
    "evaluate": "runs.evaluate",
    "report": "reports.write",
    "resume": "runs.train",
    "sweep": "studies.search",
    "train": "runs.train",
    "watch": "runs.watch",
}
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
