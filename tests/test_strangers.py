"""A folder of a stranger's: whatever lies beside an agent or a run is looked at by nobody, let alone run."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers import TINY_WORDS, Outcome, copy_of_tiny_run, only_begun, run_mac, run_python

MODULES = (  # that libraries look for and do without: JAX, its plugins, Gymnasium, NumPy, Matplotlib, Python itself
    "libtpu", "jax_plugins/stranger/__init__", "jax_cuda12_plugin/__init__", "jax_cuda13_plugin/__init__",
    "jax_cuda12_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin", "flax", "tensorflow", "torch",
    "stranger_plugin", "stranger_backend", "boto3", "usercustomize", "sitecustomize", "readline",
)  # fmt: skip
ENTRY_POINTS = "\n".join(
    f"[{group}]\nstranger = stranger_plugin\n" for group in ("jax_plugins", "gymnasium.envs", "gym.envs")
)
NEIGHBOURLY = {
    "my_module.py": """
import gymnasium, my_neighbour

class Slow(gymnasium.Wrapper):
    def reset(self, **options):
        import my_late_neighbour  # only when it is played
        return self.env.reset(**options)

def make_env():
    return Slow(my_neighbour.make())
""",
    "my_neighbour.py": "import gymnasium\ndef make(): return gymnasium.make('CartPole-v1')\n",
    "my_late_neighbour.py": "",
    "my_package/__init__.py": "import gymnasium\n"
    "gymnasium.register('Own-v0', 'my_package.games:make', max_episode_steps=9)\n",
    "my_package/games.py": "from my_module import make_env as make\n",
}


@pytest.fixture
def strange(tmp_path):
    """A folder with a run, an agent, and every module that a library might look for; each leaves a mark when run."""
    only_begun(copy_of_tiny_run(tmp_path))
    copy_of_tiny_run(tmp_path / "finished")
    content = (
        f"import os, sys\nwith open({str(tmp_path / 'marks')!r}, 'a') as file:\n"
        "    print(__name__, os.getpid(), sys.argv, file=file)\n"
    )
    told = tmp_path / "stranger-1.0.dist-info"
    texts = {
        **{f"{module}.py": content for module in MODULES},
        f"{told.name}/METADATA": "Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n",
        f"{told.name}/entry_points.txt": ENTRY_POINTS,
        "matplotlibrc": "backend: module://stranger_backend\n",
        **NEIGHBOURLY,
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def console_script(*words: str, **options) -> Outcome:
    """`mac` as users call it: unlike `python -m` and `python -c`, it has no working folder on its path."""
    command = [str(Path(sys.executable).with_name("mac")), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_untouched(folder: Path) -> None:
    assert not (folder / "marks").exists(), (folder / "marks").read_text()


COMMANDS = {
    "evaluate": ("evaluate", "agent.safetensors", "--episodes", "2"),
    "resume": ("resume", "run"),
    "runs": ("runs", "."),
    "report": ("report", "finished/run", "--out", "page", "--no-video"),
    "train": ("train", "CartPole-v0", "--out", "new", *TINY_WORDS),
    "train hosted": ("train", "CartPole-v1", "--engine", "hosted", "--out", "new", *TINY_WORDS),
    "watch": ("watch", "agent.safetensors", "--out", "video.mp4"),
    "check": ("check", "Acrobot-v1"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_command_runs_a_file_of_the_working_folder(words, strange):
    outcome = console_script(*words, cwd=strange)
    assert_untouched(strange)
    assert outcome.code == 0, outcome


def test_neither_does_python_m(strange):
    outcome = run_mac(*COMMANDS["evaluate"], cwd=strange)
    assert_untouched(strange)
    assert outcome.code == 0, outcome


@pytest.mark.parametrize("name", ["my_module:make_env", "my_package:Own-v0", "my_package.games:make"])
@pytest.mark.parametrize("call", [console_script, run_mac], ids=["mac", "python -m"])
def test_an_environment_that_the_user_names_is_found_with_its_neighbours_and_nothing_else_is(call, name, strange):
    outcome = call("train", name, "--out", "new", *TINY_WORDS, cwd=strange)
    assert outcome.code == 0, outcome
    assert_untouched(strange)


def test_the_main_process_imports_nothing_while_the_working_folder_is_on_its_path(strange):
    """Python tells an audit hook about every import, and the path at that moment."""
    script = """
import os, sys
sys.path.remove("")

def look(event, arguments):
    if event == "import" and arguments[2] is not None and {"", ".", os.getcwd()} & set(arguments[2]):
        print("LOOKED FOR", arguments[0], file=sys.stderr)
        os._exit(3)

sys.addaudithook(look)
from mean_actor_critic.cli.main import main
main(sys.argv[1:])
assert os.getcwd() not in sys.path
"""
    outcome = run_python(script, "train", "my_module:make_env", "--out", "new", *TINY_WORDS, cwd=strange)
    assert outcome.code == 0, outcome


def test_a_module_that_is_installed_does_not_bring_the_working_folder_with_it(strange):
    script = """
import os, sys
sys.path.remove("")
from mean_actor_critic.environments.hosted.factory import Factory
Factory("gymnasium:CartPole-v1")()
assert os.getcwd() not in sys.path
"""
    outcome = run_python(script, cwd=strange)
    assert outcome.code == 0, outcome


def test_a_folder_that_is_gone_is_no_reason_to_fail(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    script = f"import os, sys; sys.path.remove(''); os.chdir({str(folder)!r}); os.rmdir({str(folder)!r}); "
    outcome = run_python(script + "from mean_actor_critic.cli.main import main; main()", "check", "my_module:make_env")
    assert (outcome.code, "there is no 'my_module' here" in outcome.err) == (2, True), outcome
