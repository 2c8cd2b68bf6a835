"""Imports point one way: from what users meet down to what everything rests on."""

import ast
import graphlib
from pathlib import Path

import pytest

import mean_actor_critic
from helpers import run_python

PACKAGE = "mean_actor_critic"
ROOT = Path(mean_actor_critic.__file__).parent

# From the ground up. A module imports only from layers below its own, or from its own package.
LAYERS = (
    {"errors", "_version", "machine"},
    {"networks", "settings"},
    {"experiment"},
    {"atari_experiment"},
    {"replay"},
    {"types"},
    {"critic_targets", "estimators", "kernels"},
    {"native"},
    {"learners"},
    {"environments"},
    {"store"},
    {"agent", "grid"},
    {"run", "sweep", "theory"},
    {"atari_run"},
    {"progress"},
    {"presets"},
    {"training", "watching"},
    {"gradients"},
    {"studies"},
    {"reports"},
    {"commands"},
    {"cli"},
    {"__main__", "__init__"},
)
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}


def name_of(file: Path) -> str:
    """The module's name within the package, such as `training.loop`."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {name_of(file): file for file in sorted(ROOT.rglob("*.py"))}
# the environments because their worker processes are many and short-lived; only the one that is a JAX program needs it
WITHOUT_JAX = ("errors", "machine", "networks", "settings", "experiment", "store", "agent", "run", "grid", "sweep",
               "theory", "progress", "presets", "atari_experiment", "atari_run", "commands",
               "cli", "watching", "studies.paper", "reports",
               *(module for module in MODULES
                 if module.startswith("environments.") and module != "environments.cart_pole"))  # fmt: skip
# The two ends of a private pipe: a process hands a callable of its user's to the worker that it has just started.
# Neither end reads a file or listens to anybody else.
ENDS_OF_THE_PIPE = {"environments.fleet", "environments.worker"}


def part_of(module: str) -> str:
    return module.partition(".")[0]


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


def modules_of(parts: tuple[str, ...]) -> list[str]:
    return [module for module in MODULES if module in parts or part_of(module) in parts]


def test_every_module_has_a_layer():
    assert {part_of(module) for module in MODULES} == set(HEIGHT)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_below(module):
    for imported in own_imports(module):
        below = HEIGHT[part_of(imported)] < HEIGHT[part_of(module)]
        assert below or part_of(imported) == part_of(module), f"{module} imports {imported}"


def test_no_modules_import_each_other_in_a_circle():
    graphlib.TopologicalSorter({module: own_imports(module) for module in MODULES}).prepare()


def test_the_estimators_are_the_paper_and_nothing_else():
    assert own_imports("estimators") == {"networks", "types"}


def test_the_paper_s_numbers_are_data_only():
    assert own_imports("studies.paper") == set()


def test_reports_know_studies_only_by_the_paper_s_numbers():
    imported = {name for module in modules_of(("reports",)) for name in own_imports(module)}
    assert {name for name in imported if part_of(name) == "studies"} <= {"studies", "studies.paper"}


def test_reports_never_train():
    assert not {part_of(name) for module in modules_of(("reports",)) for name in own_imports(module)} & {
        "training", "learners", "estimators", "critic_targets", "kernels", "gradients",
    }  # fmt: skip


@pytest.mark.parametrize("module", modules_of(WITHOUT_JAX))
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
    outcome = run_python(script, PACKAGE, *(f"{PACKAGE}.{module}" for module in modules_of(WITHOUT_JAX)))
    assert (outcome.code, outcome.err) == (0, "")


def test_what_a_worker_unpickles_comes_through_the_pipe_that_it_was_started_with():
    (call,) = [
        node
        for node in ast.walk(tree_of("environments.worker"))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("cloudpickle.")
    ]
    assert ast.unparse(call) == "cloudpickle.loads(_exactly(channel.commands, length))"
    assert "cloudpickle.load" not in MODULES["environments.fleet"].read_text()


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
