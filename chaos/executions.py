"""A stranger's folder: every module that a library might look for lies in the working folder and in those of runs."""

import shutil
import sys
from pathlib import Path

from chaos.files import made
from chaos.harness import MAC, Attempt, Budget, Kind, Outcome, complaints, one_by_one, ran
from chaos.tally import EXECUTED, Tally

NAME = "executions"
MODULES = (
    "libtpu", "jax_plugins/stranger/__init__", "jax_plugins/__init__", "jax_cuda12_plugin/__init__",
    "jax_cuda13_plugin/__init__", "jax_cuda12_plugin", "jax_cuda12_pjrt", "jax_rocm60_plugin", "jax_rocm7_plugin",
    "jax_rocm7_pjrt", "flax", "flax/__init__", "tensorflow", "torch", "stranger_plugin", "stranger_backend", "boto3",
    "usercustomize", "sitecustomize", "readline", "numpy", "jax", "optax", "safetensors", "rich", "mean_actor_critic",
    "gymnasium", "cloudpickle", "scipy", "ale_py", "cv2", "pygame", "moviepy", "imageio_ffmpeg", "tensorboardX",
    "matplotlib", "plotly", "pandas", "ml_dtypes", "json", "random", "string", "types", "typing", "secrets", "ssl",
    "socket", "cuda", "triton", "zstandard", "etils", "orjson", "colorama", "IPython", "ipywidgets", "attr", "pytest",
    "PIL", "contourpy", "kiwisolver", "narwhals", "markupsafe", "psutil", "ray", "optuna", "antigravity", "this",
)  # fmt: skip
GROUPS = ("jax_plugins", "gymnasium.envs", "gym.envs", "console_scripts", "pytest11", "matplotlib.backend",
          "imageio.plugins", "numba_extensions")  # fmt: skip
OTHERS = {
    "matplotlibrc": "backend: module://stranger_backend\n",
    "stranger.pth": "import stranger_plugin\n",
    "python311._pth": "import stranger_plugin\n",
    "pyvenv.cfg": "home = .\n",
    ".env": "PYTHONSTARTUP=stranger_plugin.py\n",
    "setup.cfg": "[options]\n",
}
COMMANDS = (
    ("evaluate", "agent.safetensors", "--episodes", "1"),
    ("evaluate", "run", "--episodes", "1"),
    ("resume", "run"),
    ("runs", "."),
    ("runs", "run"),
    ("report", "run", "--out", "page", "--no-video"),
    ("report", "run", "sweep", "--out", "page"),
    ("watch", "agent.safetensors", "--out", "video.mp4"),
    ("export", "run", "--out", "other.safetensors"),
    ("gradients", "run", "--replicates", "100", "--batch-sizes", "1", "--out", "theory"),
    ("train", "CartPole-v0", "--episodes", "2", "--out", "new", "--tensorboard"),
    ("train", "CartPole-v1", "--engine", "hosted", "--episodes", "2", "--workers", "1", "--out", "new"),
    ("train", "ALE/Pong-v5", "--steps", "32", "--set", "environments=2", "screen_size=36", "stack=1",
     "evaluation_steps=12", "evaluation_environments=2", "evaluation_episodes=2", "--out", "new"),
    ("check", "Acrobot-v1"),
    ("check", "CartPole-v1", "--env-kwargs", "sutton_barto_reward=true"),
    ("sweep", "CartPole-v0", "--algorithm", "mac", "--grid", "grid.json", "--trials", "1", "--episodes", "2",
     "--out", "sweep-2"),
    ("reproduce", "theorems", "--help"),
    ("--version",),
)  # fmt: skip


def run(budget: Budget, seed: int) -> Tally:
    """Run commands in such folders."""
    true = made(budget.folder)
    return one_by_one(NAME, lambda this: attempt(this, true), budget, seed)


KIND = Kind(NAME, "a command in a folder full of modules that libraries look for", 20, 0.1, run)


def attempt(this: Attempt, true: Path) -> Outcome:
    """One command, in the folder, in that of a run, or from elsewhere."""
    shutil.copytree(true / "episodic", this.folder / "run")
    shutil.copytree(true / "sweep", this.folder / "sweep")
    for name in ("episodic.safetensors", "grid.json"):
        shutil.copy(true / name, this.folder / name.replace("episodic", "agent"))
    mark = this.folder / "executed"
    draw = this.random
    if draw.random() < 0.5:  # of a run that is to go on
        for file in (this.folder / "run").glob("checkpoint-*"):
            file.unlink()
    for folder in (this.folder, this.folder / "run", this.folder / "run" / "agents"):
        plant(folder, mark, draw.sample(MODULES, draw.randint(len(MODULES) // 2, len(MODULES))))
    words = draw.choice(COMMANDS)
    # the script that users call, and the other way, which has the working folder on Python's path
    script = Path(sys.executable).with_name("mac")
    begin = MAC if draw.random() < 0.3 or not script.exists() else (script,)
    cwd = this.folder
    if draw.random() < 0.2:
        cwd = this.folder / "run"
        words = tuple(f"../{word}" if (this.folder / word).exists() and word != "." else word for word in words)
    if begin is MAC:  # nobody can help what `python -m mean_actor_critic` finds beside itself under that very name
        for place in (this.folder, this.folder / "run"):
            _remove_shadows(place)
    ended = ran(this, [*begin, *words], 60, cwd=cwd)
    findings = complaints(this, ended, (0, 1, 2), f"{words[0]} among strange modules")
    if mark.exists():
        what = sorted({line.split("\t")[0] for line in mark.read_text().splitlines()})
        findings.append(this.found(EXECUTED, f"{words[0]}: {', '.join(what)}", f"{begin} {words} in {cwd}"))
    return Outcome(1, findings)


def plant(folder: Path, mark: Path, modules: list[str]) -> None:
    """Lay out modules that write down that they were run, and all that might lead to them."""
    folder.mkdir(exist_ok=True)
    content = (
        f"import os, sys\nwith open({str(mark)!r}, 'a') as file: print(__name__, sys.argv, sep='\\t', file=file)\n"
    )
    told = "stranger-1.0.dist-info"
    points = "\n".join(f"[{group}]\nstranger = stranger_plugin\n" for group in GROUPS)
    texts = {
        **{f"{module}.py": content for module in modules},
        f"{told}/METADATA": "Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n",
        f"{told}/entry_points.txt": points,
        "stranger.egg-info/entry_points.txt": points,
        "stranger.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n",
        **OTHERS,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)


def _remove_shadows(folder: Path) -> None:
    """What Python itself imports before any line of ours, where the working folder is on its path."""
    for file in folder.glob("*.py"):
        if file.stem in sys.stdlib_module_names or file.stem in ("mean_actor_critic", "sitecustomize", "usercustomize"):
            file.unlink()
