"""The broker's jars, in a cache, and the Java to run them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

_POM = Path(__file__).with_name("pom.xml")
_JAVA = 17


class Missing(Exception):  # noqa: N818 - it is what it says: something this machine lacks
    """Something is missing that a broker needs; the message names it in one line."""


def kafka_version() -> str:
    """Return the broker's version, as the pom pins it."""
    for dependency in ET.parse(_POM).iterfind(".//{*}dependency"):  # noqa: S314 - our own file
        if dependency.findtext("{*}artifactId", "").startswith("kafka_"):
            return dependency.findtext("{*}version", "")
    message = f"{_POM} names no Kafka"
    raise Missing(message)


def cache_folder() -> Path:
    """Return where the jars are kept: ``PUMICE_CACHE`` or ``~/.cache/pumice``, by version."""
    base = os.environ.get("PUMICE_CACHE")
    root = Path(base) if base else Path.home() / ".cache" / "pumice"
    return root / f"kafka-{kafka_version()}"


def find_java() -> str:
    """Return the java command (``JAVA_HOME`` first). Raises Missing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or shutil.which(java) is None:
        raise Missing(f"java is missing (Kafka needs version {_JAVA} or newer)")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found.group(1)) < _JAVA:
        version = found.group(1) if found else "an unknown version"
        raise Missing(f"Java {_JAVA} or newer is missing ({java} is {version})")
    return java


def fetch_jars() -> Path:
    """Return the folder with the jars, filled by Maven if it is not there. Raises Missing."""
    folder = cache_folder()
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing(f"mvn is missing, and the jars are not in {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Renaming is atomic: nobody sees half a folder, and of two at once one simply wins.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pom = shutil.copy(_POM, scratch)
        jars = Path(scratch) / "jars"
        command = [maven, "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        ran = subprocess.run(
            [*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True, check=False
        )
        if ran.returncode != 0 or not any(jars.glob("kafka_*.jar")):
            said = (ran.stdout + ran.stderr).strip().splitlines() or ["no output"]
            raise Missing(f"mvn could not get the jars of Kafka {kafka_version()}: {said[0]}")
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder
