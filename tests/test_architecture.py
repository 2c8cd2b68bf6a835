"""Imports point one way: from what users meet down to what everything rests on."""

import ast
import graphlib
from pathlib import Path

import pytest

import mean_actor_critic
from helpers import run_python
from mean_actor_critic.spec.learners import ENGINES, LEARNERS, learners_on

PACKAGE = "mean_actor_critic"
ROOT = Path(mean_actor_critic.__file__).parent

# From the ground up. A module imports only from rooms below its own, or from its own room.
GROUND = {"_version", "errors", "files", "machine", "progress", "terminal", "trees"}
ROOMS = (
    "ground",
    "spec",
    "learning",
    "environments",
    "engines",
    "runs",
    "gradients",
    "studies",
    "reports",
    "cli",
    "top",
)
HEIGHT = {room: height for height, room in enumerate(ROOMS)}
# What reports read of the rooms that measure and train: what was written, and the paper's numbers.
READ_BY_REPORTS = {"engines.curves", "gradients.theory", "spec.paper", "studies.sweep"}


def name_of(file: Path) -> str:
    """The module's name within the package, such as `runs.train`."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(file): file for file in sorted(ROOT.rglob("*.py"))}
# the environments because their worker processes are many and short-lived; only those that are JAX programs need it
WITHOUT_JAX = tuple(
    module
    for module in MODULES
    if module in {*GROUND, "learning.networks", *READ_BY_REPORTS}
    or module
    in {"runs", "runs.agent", "runs.facts", "runs.players", "runs.run", "runs.signals", "runs.store", "runs.watch"}
    or (
        module.partition(".")[0] in {"spec", "environments", "reports", "cli"}
        and not module.startswith("environments.compiled.")
    )
)
# A process hands a callable of its user's to the worker that it has just started, in memory without a name.
# Neither side reads a file that has one, or listens to anybody else.
ENDS_OF_THE_PIPE = {"environments.hosted.fleet", "environments.hosted.worker"}


def room_of(module: str) -> str:
    first = module.partition(".")[0]
    return "ground" if first in GROUND else ("top" if first in {"__init__", "__main__"} else first)


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def names_imported_by(node: ast.AST) -> list[str]:
    """Full names that one statement may import: `from a import b` may mean the module `a.b`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def all_imports(module: str) -> set[str]:
    """Everywhere in the module, also inside functions and for types only."""
    return {name for node in ast.walk(tree_of(module)) for name in names_imported_by(node)}


def own_imports(module: str) -> set[str]:
    """The modules of the package that a module imports, anywhere."""
    names = {name.removeprefix(f"{PACKAGE}.") for name in all_imports(module) if name.startswith(f"{PACKAGE}.")}
    return names & set(MODULES) - {module}


def immediate_imports(module: str) -> set[str]:
    """Top packages imported when the module is: not inside functions, nor for types only."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return
        found.update(name.partition(".")[0] for name in names_imported_by(node))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree_of(module))
    return found


def imported_by(room: str) -> set[str]:
    """All modules that a room imports."""
    return {name for module in MODULES if room_of(module) == room for name in own_imports(module)}


def test_every_module_is_in_a_room():
    assert {room_of(module) for module in MODULES} == set(ROOMS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_below(module):
    for imported in own_imports(module):
        assert HEIGHT[room_of(imported)] <= HEIGHT[room_of(module)], f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle():
    graphlib.TopologicalSorter({module: own_imports(module) for module in MODULES}).prepare()


def test_the_estimators_are_the_paper_and_nothing_else():
    assert own_imports("learning.estimators") == {"learning.networks", "learning.types"}


def test_the_paper_s_numbers_are_data_only():
    assert own_imports("spec.paper") == set()


def test_reports_only_read():
    rooms = {"learning", "engines", "gradients", "studies"}
    read = {name for name in imported_by("reports") if room_of(name) in rooms and name != room_of(name)}
    assert read <= READ_BY_REPORTS


def test_rooms_below_the_engines_know_no_engine_and_engines_no_run():
    assert not {name for name in imported_by("engines") if HEIGHT[room_of(name)] > HEIGHT["engines"]}


# --- learners, networks and engines know each other by their types ---------------------------------------------------

LEARNER_MODULES = {
    setup.module.removeprefix(f"{PACKAGE}.") for learner in LEARNERS.values() for setup in learner.setups.values()
}
# What a learner may know of networks: how to find the one that its settings ask for, the types that carry what was
# learned, and functions of arrays that are the same for every network.
KNOWN_OF_NETWORKS = {
    "Activations", "GameNetwork", "Layer", "Layers", "Networks", "Scale", "Units", "highest", "legal", "normalize",
    "softmax", "sum_over_actions",
}  # fmt: skip


def names_imported_from(module: str, home: str) -> set[str]:
    """What a module imports from a module of the package by name, anywhere."""
    return {
        alias.name
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom) and node.module == f"{PACKAGE}.{home}"
        for alias in node.names
    }


def test_every_learner_is_found_by_its_entry():
    assert {"learning.episodic", "learning.rollout"} <= LEARNER_MODULES <= set(MODULES)
    for engine, learners in ((engine, learners_on(engine)) for engine in ENGINES):
        assert learners, engine
        assert set(learners) <= set(LEARNERS)


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) in ("engines", "runs", "studies")])
def test_nobody_who_plays_or_trains_names_a_learner(module):
    """They find one through `learning.learners`, so that another one is an entry and a module, and no change here."""
    assert not own_imports(module) & LEARNER_MODULES


def test_learners_are_found_through_one_module():
    assert not {module for module in MODULES if LEARNER_MODULES & own_imports(module)}
    assert "importlib.import_module" in MODULES["learning.learners"].read_text()


@pytest.mark.parametrize("module", sorted(LEARNER_MODULES))
def test_a_learner_names_no_network(module):
    imported = names_imported_from(module, "learning.networks")
    assert names_imported_from(module, "learning.architectures") == {"network_of"}
    assert not names_imported_from(module, "learning.torsos")
    assert imported <= KNOWN_OF_NETWORKS
    assert f"{PACKAGE}.learning" not in all_imports(module) or "networks" not in names_imported_from(module, "learning")


@pytest.mark.parametrize("module", sorted(LEARNER_MODULES))
def test_a_learner_knows_no_other_learner_and_no_engine(module):
    assert not own_imports(module) & (LEARNER_MODULES - {module})
    assert {room_of(name) for name in own_imports(module)} <= {"ground", "spec", "learning"}


@pytest.mark.parametrize("module", WITHOUT_JAX)
def test_what_only_reads_and_shows_does_not_name_jax_when_imported(module):
    assert not immediate_imports(module) & {"jax", "jaxlib", "jaxtyping", "optax"}


def test_what_only_reads_and_shows_does_not_load_jax_through_others_either():
    script = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    loaded = {"jax", "jaxlib", "optax"} & set(sys.modules)
    if loaded:
        sys.exit(f"{name} loads {loaded}")
"""
    outcome = run_python(script, PACKAGE, *(f"{PACKAGE}.{module}" for module in WITHOUT_JAX))
    assert (outcome.code, outcome.err) == (0, "")


def test_what_a_worker_unpickles_is_what_it_was_started_with():
    (call,) = [
        node
        for node in ast.walk(tree_of("environments.hosted.worker"))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("cloudpickle.")
    ]
    assert ast.unparse(call) == "cloudpickle.load(handed_over)"
    assert "with open(int(sys.argv[3]), 'rb') as handed_over:" in ast.unparse(tree_of("environments.hosted.worker"))
    assert "cloudpickle.load" not in MODULES["environments.hosted.fleet"].read_text()


@pytest.mark.parametrize("module", MODULES)
def test_nothing_unpickles_or_evaluates(module):
    imported = {name.partition(".")[0] for name in all_imports(module)}
    allowed = {"cloudpickle"} if module in ENDS_OF_THE_PIPE else set()
    assert not imported & {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"} - allowed
    called = {
        node.func.id
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"eval", "exec", "compile", "__import__"}
