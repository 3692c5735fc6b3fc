"""Build the sdist and, from it, the wheel; install them as a stranger would, and use them: python tools/try_wheel.py

dist/*.tar.gz         holds every file of the repository: its tests run from it
wheel alone           steps once, and says what the command and the estimators need
wheel with [cli]      answers `scax --help` and compares methods on bundled data
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {".gitignore"}  # of the sdist

STEP = """
import sys, jax, numpy as np, scax
net = scax.MLP((3, 4, 1))
sca = scax.SCA(scax.Problem(net.apply, scax.Squared(), scax.L2(1e-3)))
x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
params = net.init(jax.random.key(0))
state, info = sca.step(sca.init(params), (x, x[:, 0]))
assert np.isfinite(info.loss), info
result = scax.train(sca, params, (x, x[:, 0]), steps=3, batch_size=5)
scax.save("model.safetensors", net, result.params, loss=scax.Squared())
assert np.isfinite(np.asarray(scax.load("model.safetensors").predict(x))).all()
assert scax.knn_graph(x, 2).size == 20
print("one step with", sorted({"sklearn", "polars", "matplotlib", "typer", "rich", "ray"} & set(sys.modules)))
"""
ESTIMATORS = "import scax.estimators"


def run(*command: str | Path, code: int = 0, **options) -> str:
    """What the command says; it must end with this code."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def expect(text: str, pattern: str) -> None:
    if not re.search(pattern, text):
        sys.exit(f"{pattern!r} should be in:\n{text}")
    print(f"  {text.strip().splitlines()[-1]}")


def build(folder: Path) -> tuple[Path, Path]:
    """(sdist, wheel)"""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = set(run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard").split("\n")) - {""}
    missing = {name for name in wanted - held - LEFT_OUT if (ROOT / name).exists()}
    if missing:
        sys.exit(f"{sdist.name} lacks {', '.join(sorted(missing)[:10])}")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB, {len(held)} entries")


def check_wheel(wheel: Path, work: Path) -> None:
    run(sys.executable, "-m", "venv", work / "env")
    bin = work / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    python = bin / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-compile"]
    # neither the source tree nor the user's cache
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    options = {"cwd": work, "env": environment | {"SCAX_CACHE": str(work / "programs")}}
    print(f"{wheel.name} alone, {wheel.stat().st_size / 1e6:.2f} MB")
    run(*pip, wheel, **options)
    expect(run(python, "-I", "-c", STEP, **options), r"one step with \[\]")
    install = r", which is not installed: pip install 'scax\[{}\]'"
    expect(
        run(bin / "scax", "--help", code=2, **options), "^scax: The scax command needs typer" + install.format("cli")
    )
    expect(
        run(python, "-I", "-c", ESTIMATORS, code=1, **options),
        "scax.estimators needs scikit-learn" + install.format("sklearn"),
    )
    print(f"{wheel.name} with [cli]")
    run(*pip, f"{wheel}[cli]", **options)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    expect(run(bin / "scax", "--version", **options), rf"^scax {re.escape(version)}$")
    expect(run(bin / "scax", "--help", **options), "Train neural networks")
    expect(run(bin / "scax", "compare", "iris", "--steps", "5", "--repeats", "2", **options), r"[Rr]eport")
    run(python, "-I", "-c", ESTIMATORS, **options)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        sdist, wheel = build(Path(work) / "dist")
        check_sdist(sdist)
        check_wheel(wheel, Path(work))
        (ROOT / "dist").mkdir(exist_ok=True)
        for file in (sdist, wheel):
            (ROOT / "dist" / file.name).write_bytes(file.read_bytes())
    print("built, installed and run: dist/")
