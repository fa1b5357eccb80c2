"""What each container of a pod does, from the pod alone.

Annotations on the pod say it outright, for its containers (not for its init containers):

* ``pumice.dev/sim-run-seconds``: how long a run takes (decimal seconds);
* ``pumice.dev/sim-exit-code``: its exit code (0 to 255); without a run time the command's own is kept, or
  none if the command would run for ever.

``…/sim-run-seconds.NAME`` and ``…/sim-exit-code.NAME`` do so for the container of that name only. Without
them the command and arguments are interpreted (:mod:`.shell`), with the environment's literal values and
fields of the pod. A container without a command runs until it is stopped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from shared.kube.port import JSON
from simulator.kubelet.core.shell import Program, run_command, run_script

RUN_SECONDS: Final = "pumice.dev/sim-run-seconds"
EXIT_CODE: Final = "pumice.dev/sim-exit-code"

_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^()]*)\))")
_KEYED_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_MAX_EXIT_CODE: Final = 255


def program_of(pod: JSON, container: JSON, *, init: bool = False) -> Program:
    """Return what one run of a container does."""
    env = environment(pod, container)
    argv = [expand(str(word), env) for key in ("command", "args") for word in container.get(key) or ()]
    program = _interpret(argv, env)
    return program if init else _annotated(pod, container["name"], program)


def environment(pod: JSON, container: JSON) -> dict[str, str]:
    """Return a container's environment, as far as the pod alone tells it."""
    env = {"HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"]}
    for variable in container.get("env") or ():
        source = (variable.get("valueFrom") or {}).get("fieldRef")
        value = _field(pod, source.get("fieldPath", "")) if source else variable.get("value")
        env[variable["name"]] = expand(value or "", env)
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` as Kubernetes does: unknown names stay, ``$$`` is a dollar."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[1] is None else env.get(match[1], match[0])

    return _REFERENCE.sub(value, text) if "$" in text else text


def _field(pod: JSON, path: str) -> str:
    keyed = _KEYED_FIELD.fullmatch(path)
    if keyed:
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    section, _, name = path.partition(".")
    value = (pod.get(section) or {}).get(name, "")
    return value if isinstance(value, str) else ""


def _interpret(argv: list[str], env: Mapping[str, str]) -> Program:
    if not argv:
        return Program()
    if argv[0].rsplit("/", 1)[-1] not in _SHELLS:
        return run_command(argv)
    flags = ""
    for position, word in enumerate(argv[1:], start=2):
        if not word.startswith("-"):
            break
        flags += word
        if "c" in word and position < len(argv):
            return run_script(argv[position], env, errexit="e" in flags)
    return Program()


def _annotated(pod: JSON, name: str, program: Program) -> Program:
    annotations = pod["metadata"].get("annotations") or {}
    seconds = annotations.get(f"{RUN_SECONDS}.{name}", annotations.get(RUN_SECONDS))
    code = annotations.get(f"{EXIT_CODE}.{name}", annotations.get(EXIT_CODE))
    if seconds is None and code is None:
        return program
    try:
        length = (program.seconds or 0.0) if seconds is None else float(seconds)
        status = 0 if code is None else int(code)
    except ValueError:
        length, status = math.nan, 0
    if not 0 <= length < math.inf or not 0 <= status <= _MAX_EXIT_CODE:
        wrong = ", ".join(
            f"{k}={v!r}" for k, v in ((RUN_SECONDS, seconds), (EXIT_CODE, code)) if v is not None
        )
        return Program(0.0, 128, failure=f"wrong annotation: {wrong}")
    return Program(length, status, tuple(entry for entry in program.output if entry[0] <= length))
