"""The command line as a process: start-up, pipes, Ctrl-C, plug-ins. Nothing here needs more than loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = {"httpx", "pydantic", "yaml", "rich", "shared", "services"}


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory):
    """Keep byte code, as an installation does: else each process compiles everything anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.getbasetemp() / "bytecode"))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


def start(*args: str, **kwargs) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from pumice.cli import main; main()", *args],
        stdin=kwargs.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def run(*args: str, **kwargs) -> tuple[int, str, str]:
    process = start(*args, **kwargs)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def imported_by(code: str) -> set[str]:
    script = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(*sys.modules, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in result.stderr.split()}


def test_help_loads_nothing_heavy_and_no_plug_in():
    assert imported_by("from pumice.cli import main; main()") & HEAVY == set()


def test_the_package_is_loaded_by_need():
    assert imported_by("import pumice") & HEAVY == set()
    assert "httpx" in imported_by("import pumice; pumice.Client")


def test_a_pipe_gets_plain_lines_and_the_exit_code_of_the_outcome(gateway):
    gateway.on_submit = {"phase": "Failed", "message": "out of memory"}
    code, out, err = run("--server", gateway.url, "run", "--name", "a", "--image", "busybox")
    assert code == 1
    assert out.endswith("Failed  a  0/0 pods  out of memory\n")
    assert "\x1b" not in out + err
    assert err == "error: job default/a ended Failed: out of memory\n"


def test_ctrl_c_while_following_is_130_and_says_that_the_job_goes_on(gateway):
    process = start("--server", gateway.url, "run", "--name", "a", "--image", "busybox")
    assert "Pending" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "job a goes on" in err
    assert "Traceback" not in out + err


def test_a_reader_that_goes_away_makes_no_noise(gateway):
    for index in range(3000):
        gateway.jobs["default", f"job-with-a-long-name-{index}"] = {
            "namespace": "default",
            "name": f"job-with-a-long-name-{index}",
            "queue": "default",
            "phase": "Running",
        }
    process = start("--server", gateway.url, "get", "jobs", "-o", "wide")
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=20)
    assert process.stderr.read() == ""
    process.stderr.close()


def test_watching_a_list_prints_what_changes(gateway):
    gateway.put("a", phase="Pending")
    gateway.put("b", phase="Pending")
    process = start("--server", gateway.url, "get", "jobs", "--watch")
    lines = [process.stdout.readline() for _ in range(3)]
    gateway.put("b", phase="Running")
    lines.append(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert [line.split()[0] for line in lines] == ["NAME", "a", "b", "b"]
    assert "Running" in lines[-1]
    assert process.returncode == 130


@pytest.fixture
def plugins(tmp_path: Path):
    """Installs plug-in commands for a process, as a distribution does."""

    def install(**commands: str) -> dict[str, str]:
        info = tmp_path / "plugged-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
        entries = "\n".join(f"{name} = {target}" for name, target in commands.items())
        (info / "entry_points.txt").write_text(f"[pumice.commands]\n{entries}\n")
        (tmp_path / "plugged.py").write_text(
            "import typer\n"
            "print('plugged is loaded')\n"
            "def greet(name: str = 'you', loud: bool = False):\n"
            "    '''Greet somebody.'''\n"
            "    print(f'hello {name}' + '!' * loud)\n"
            "app = typer.Typer()\n"
            "@app.command()\n"
            "def one(count: int): print(count)\n"
            "@app.command()\n"
            "def two(): pass\n"
        )
        (tmp_path / "broken.py").write_text("raise RuntimeError('no such chip')\n")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    return install


def test_a_plug_in_is_listed_without_being_loaded_and_runs_with_its_own_flags(plugins):
    env = plugins(greet="plugged:greet", many="plugged:app", up="plugged:greet")
    code, out, _ = run("--help", env=env)
    assert code == 0
    assert "greet" in out
    assert "(from plugged)" in out
    assert "plugged is loaded" not in out
    assert run("greet", "--name", "ada", "--loud", env=env)[:2] == (0, "plugged is loaded\nhello ada!\n")
    assert run("many", "one", "7", env=env)[:2] == (0, "plugged is loaded\n7\n")
    assert "--loud" in run("greet", "--help", env=env)[1]
    code, _, err = run("greet", "--no-such-flag", env=env)
    assert code == 2
    assert "--no-such-flag" in err


def test_a_broken_plug_in_is_a_line_when_it_is_called_and_nothing_else(plugins):
    env = plugins(bad="broken:anything", gone="nowhere:thing", get="plugged:greet", greet="plugged:greet")
    assert run("--help", env=env)[0] == 0
    assert run("greet", env=env)[0] == 0
    code, out, err = run("bad", env=env)
    assert (code, out) == (1, "")
    assert err == "error: 'pumice bad' (broken:anything) cannot be loaded: no such chip\n"
    assert "No module named 'nowhere'" in run("gone", env=env)[2]
    assert "jobs|queues|nodes" in run("get", "--help", env=env)[1]  # an own command is not replaced


def test_up_without_the_server_names_the_distribution_it_needs(tmp_path):
    script = "from pumice.cli import group\ngroup.plugins = lambda: {}\nfrom pumice.cli import main\nmain()"  # nothing installed
    result = subprocess.run([sys.executable, "-c", script, "up"], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert (
        result.stderr == "error: 'pumice up' needs the distribution pumice-server, which is not installed\n"
    )


def test_version_names_what_is_installed():
    assert run("version")[:2] == (0, "pumice 0.1.0\n")


def test_help_answers_quickly():
    run("--help")  # compiles, if none did before
    best = 10.0
    for _ in range(3):
        begin = time.perf_counter()
        run("--help")
        best = min(best, time.perf_counter() - begin)
    assert best < 1.0  # 0.16 s on a slow machine, with room for a busy one
