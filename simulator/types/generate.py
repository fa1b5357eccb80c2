"""Writes ``types.json``: what clients can see of the Go types of the built-in kinds.

``python -m simulator.types.generate`` reads the sources of the Go modules k8s.io/api, k8s.io/apimachinery and
k8s.io/apiextensions-apiserver (``go mod download`` brings them) and keeps facts only: for every struct that a
served kind reaches, its JSON fields, each as ``type|protobuf number|flags``. Types are Go's, with the package
before the name; flags are ``omitempty``, ``omitzero``, ``merge``, ``merge=<key>``, ``retain``, ``keys=a+b``,
``set``, ``atomic`` and ``inline``. The published OpenAPI document lacks half of that.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

VERSION: Final = "v0.36.3"
TARGET: Final = Path(__file__).with_name("types.json")
_PACKAGES: Final = {
    "k8s.io/apimachinery/pkg/apis/meta/v1": "meta/v1",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": "apiextensions/v1",
} | {
    f"k8s.io/api/{name}/v1": f"{name}/v1"
    for name in [
        "core",
        "apps",
        "batch",
        "networking",
        "scheduling",
        "coordination",
        "rbac",
        "policy",
        "storage",
        "admissionregistration",
        "events",
        "autoscaling",
        "authorization",
        "authentication",
        "discovery",
    ]
}
_SPECIAL: Final = {
    "resource.Quantity": "quantity",
    "metav1.Time": "time",
    "meta/v1.Time": "time",
    "meta/v1.MicroTime": "microtime",
    "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "any",
    "meta/v1.FieldsV1": "any",
    "meta/v1.Duration": "string",
    "apiextensions/v1.JSON": "any",
    "apiextensions/v1.JSONSchemaPropsOrBool": "any",
    "apiextensions/v1.JSONSchemaPropsOrArray": "any",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "any",
    "[]byte": "bytes",
    "types.UID": "string",
    "types.NodeName": "string",
}
_EXTRA: Final = {
    "meta/v1.ObjectMeta",
    "meta/v1.DeleteOptions",
    "core/v1.Binding",
    "policy/v1.Eviction",
    "autoscaling/v1.Scale",
    "authorization/v1.SelfSubjectAccessReview",
    "authorization/v1.SelfSubjectRulesReview",
    "authorization/v1.SubjectAccessReview",
    "authentication/v1.SelfSubjectReview",
    "authentication/v1.TokenReview",
}
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"^type (\w+) =? ?((?:\[\]|map\[\w+\])?[\w.]+)$", re.MULTILINE)
_FIELD: Final = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_IMPORT: Final = re.compile(r'^\s*(?:import\s+)?(\w+)?\s*"([^"]+)"', re.MULTILINE)


def _source(module: str) -> Path:
    found = subprocess.run(  # noqa: S603 - a fixed command
        ["go", "mod", "download", "-json", f"{module}@{VERSION}"],  # noqa: S607
        check=True,
        capture_output=True,
    )
    return Path(json.loads(found.stdout)["Dir"])


class _Package:
    """The types that one Go package declares."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.structs: dict[str, list[tuple[str, str, str, list[str]]]] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        for path in sorted(directory.glob("*.go")):
            if (
                path.name.startswith("zz_")
                or path.name.endswith("_test.go")
                or path.name == "generated.pb.go"
            ):
                continue
            self._read(path.read_text(encoding="utf-8"))

    def _read(self, text: str) -> None:
        for alias, path in _IMPORT.findall(text.partition("\ntype ")[0]):
            self.imports[alias or path.rpartition("/")[2]] = _PACKAGES.get(path, "")
        for name, target in _NAMED.findall(text):
            self.named[name] = target
        self.structs.update(
            (name, []) for name in re.findall(r"^type (\w+) struct ?\{\}", text, re.MULTILINE)
        )
        for name, body in _STRUCT.findall(text):
            self.structs[name] = [
                (match[1] or "", match[2], match[3], _markers(body[: match.start()]))
                for match in _FIELD.finditer(body)
            ]


def _markers(before: str) -> list[str]:
    """Return the ``+key=value`` comments directly above a field."""
    found: list[str] = []
    for line in reversed(before.rstrip("\n").split("\n")):
        text = line.strip()
        if not text.startswith("//"):
            break
        if text.startswith("// +"):
            found.append(text.removeprefix("// +"))
    return found[::-1]


class _Types:
    def __init__(self) -> None:
        roots = {
            module: _source(f"k8s.io/{module}")
            for module in ("api", "apimachinery", "apiextensions-apiserver")
        }
        self.packages: dict[str, _Package] = {}
        for path, name in _PACKAGES.items():
            module, _, below = path.removeprefix("k8s.io/").partition("/")
            self.packages[name] = _Package(name, roots[module] / below)

    def resolve(self, package: str, type_: str) -> str:
        """Return a type with its package, named scalars and maps replaced by what they are."""
        for prefix in ("*", "[]"):
            if type_.startswith(prefix) and type_ != "[]byte":
                return prefix + self.resolve(package, type_[len(prefix) :])
        if type_.startswith("map["):
            return "map[string]" + self.resolve(package, type_.partition("]")[2])
        alias, dot, name = type_.rpartition(".")
        owner = self.packages[package].imports.get(alias, "") if dot else package
        full = f"{owner}.{name}"
        if special := _SPECIAL.get(type_) or _SPECIAL.get(full):
            return special
        if owner and name in self.packages[owner].structs:
            return full
        if owner and name in self.packages[owner].named:
            return self.resolve(owner, self.packages[owner].named[name])
        return name

    def fields(self, full: str) -> dict[str, str]:
        package, name = full.rsplit(".", 1)
        fields: dict[str, str] = {}
        for _, type_, tags, markers in self.packages[package].structs[name]:
            json_tag = re.search(r'json:"([^"]*)"', tags)
            number = re.search(r'protobuf:"\w+,(\d+)', tags)
            if json_tag is None or json_tag[1] == "-":
                continue
            label, *options = json_tag[1].split(",")
            resolved = self.resolve(package, type_)
            if not label and resolved == "meta/v1.TypeMeta":
                fields |= {"kind": "string|0|omitempty", "apiVersion": "string|0|omitempty"}
                continue
            flags = [flag for flag in options if flag in ("omitempty", "omitzero", "inline")]
            strategy = re.search(r'patchStrategy:"([^"]*)"', tags)
            key = re.search(r'patchMergeKey:"([^"]*)"', tags)
            if strategy and "merge" in strategy[1]:
                flags.append(f"merge={key[1]}" if key else "merge")
            if strategy and "retainKeys" in strategy[1]:
                flags.append("retain")
            keys = [marker.partition("=")[2] for marker in markers if marker.startswith("listMapKey=")]
            if keys:
                flags.append("keys=" + "+".join(keys))
            elif "listType=set" in markers:
                flags.append("set")
            elif any(m in markers for m in ("listType=atomic", "structType=atomic", "mapType=atomic")):
                flags.append("atomic")
            fields[label or f"+{resolved}"] = f"{resolved}|{number[1] if number else 0}|{','.join(flags)}"
        return fields


def generate(roots: set[str]) -> dict[str, dict[str, str]]:
    """Return the structs that the named ones reach."""
    types = _Types()
    found: dict[str, dict[str, str]] = {}
    todo = sorted(roots | _EXTRA)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found[name] = types.fields(name)
        for field in found[name].values():
            inner = re.sub(r"^(\*|\[\]|map\[string\])+", "", field.partition("|")[0])
            if "." in inner:
                todo.append(inner)
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file, one struct a line."""
    from simulator.builtin import KINDS

    structs = generate({kind.type_name for kind in KINDS})
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in structs.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
