"""``make demo``: the main job, typed as a user would type it, against a platform of its own.

Exit code 0 only if the job really went through to Completed and the platform stopped cleanly.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLE: Final = "examples/train.yaml"
PUMICE: Final = (sys.executable, "-m", "pumice")
_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0


def main() -> int:
    """Run the demo and return its exit code."""
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as directory:
        ready_file = Path(directory) / "ready.json"
        _say(console, "up", "--nodes", "4x8", "--port", "0")
        platform = subprocess.Popen(
            [*PUMICE, "up", "--nodes", "4x8", "--port", "0", "--ready-file", str(ready_file)]
        )
        try:
            gateway = _wait_ready(platform, ready_file)
            completed = gateway is not None and _main_job(console, gateway)
        finally:
            stopped = _stop(platform)
    if not completed:
        console.print("[red]The job did not complete.")
        return 1
    if not stopped:
        console.print("[red]The platform did not stop cleanly.")
        return 1
    console.print("[green]The gang ran from submission to its end.[/] Go on with: .venv/bin/pumice up")
    return 0


def _main_job(console: Console, gateway: str) -> bool:
    environment = os.environ | {"PUMICE_SERVER": gateway}

    def pumice(*words: str) -> int:
        _say(console, *words)
        return subprocess.run([*PUMICE, *words], cwd=ROOT, env=environment, check=False).returncode

    if pumice("submit", "-f", EXAMPLE, "--wait", "finished", "--timeout", "120") != 0:
        return False
    for words in (("events", "train"), ("trace", "train")):
        if pumice(*words) != 0:
            return False
    answer = subprocess.run(
        [*PUMICE, "get", "jobs", "train", "-o", "json"], env=environment, check=True, capture_output=True
    )
    return bool(json.loads(answer.stdout).get("phase") == "Completed")


def _wait_ready(platform: subprocess.Popen[bytes], ready_file: Path) -> str | None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and platform.poll() is None:
        if ready_file.exists():
            gateway: str = json.loads(ready_file.read_text(encoding="utf-8"))["gateway"]
            return gateway
        time.sleep(0.05)
    return None


def _stop(platform: subprocess.Popen[bytes]) -> bool:
    """Stop as Ctrl-C does; False when it had to be killed or ended with an error."""
    platform.send_signal(signal.SIGINT)
    try:
        return platform.wait(_STOP_SECONDS) == 0
    except subprocess.TimeoutExpired:
        platform.kill()
        platform.wait()
        return False


def _say(console: Console, *words: str) -> None:
    console.print(f"\n[bold]$ pumice {shlex.join(words)}")


if __name__ == "__main__":
    sys.exit(main())
