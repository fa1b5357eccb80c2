"""Built-in kinds as typed values: exactly what Go's types would write back."""

from __future__ import annotations

import re

import pytest

from simulator.builtin import KINDS, TYPES
from simulator.core.errors import StatusError
from simulator.web import protobuf

SCALARS = {
    "string",
    "int32",
    "int64",
    "bool",
    "float64",
    "bytes",
    "quantity",
    "time",
    "microtime",
    "intorstring",
    "any",
}


def test_every_type_that_a_field_has_is_known():
    for fields in TYPES.structs.values():
        for field in fields.values():
            assert field.inner in TYPES.structs or field.inner in SCALARS, field


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.qualified)
def test_what_is_written_for_an_empty_object_is_read_back_equal(kind):
    once, unknown = kind.decode({"metadata": {"name": "x"}})
    assert unknown == []
    assert kind.decode(once) == (once, [])


def test_zero_values_are_written_as_go_writes_them():
    pod, _ = TYPES.decode(
        "core/v1.Pod",
        "v1",
        "Pod",
        {"spec": {"containers": [{"name": "a", "tty": False, "args": []}], "hostname": ""}},
    )
    assert pod == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {},
        "spec": {"containers": [{"name": "a", "resources": {}}]},
        "status": {},
    }
    event, _ = TYPES.decode("core/v1.Event", "v1", "Event", {"metadata": {"name": "e"}})
    assert (event["involvedObject"], event["eventTime"], event["reportingComponent"]) == ({}, None, "")


def test_a_pointer_keeps_its_zero():
    claim, _ = TYPES.decode(
        "core/v1.PersistentVolumeClaim", "v1", "PersistentVolumeClaim", {"spec": {"storageClassName": ""}}
    )
    assert claim["spec"]["storageClassName"] == ""


def test_embedded_structs_are_fields_of_their_owner():
    fields = TYPES.fields("core/v1.Volume")
    assert {"name", "configMap", "emptyDir"} <= set(fields)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"containers": [{"name": 1}]},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            {"containers": [{"resources": {"limits": {"cpu": "abc"}}}]},
            "quantities must match the regular expression",
        ),
        (
            {"hostNetwork": "yes"},
            "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
    ],
)
def test_wrong_types_are_refused_with_gos_words(spec: dict, words: str):
    with pytest.raises(StatusError, match=re.escape(words)):
        TYPES.decode("core/v1.Pod", "v1", "Pod", {"spec": spec})


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


def test_a_protobuf_body_is_read_by_field_numbers():
    label = _field(1, b"a") + _field(2, b"b")
    meta = _field(1, b"team") + _field(11, label)
    unknown = _field(1, _field(1, b"v1") + _field(2, b"Namespace")) + _field(2, _field(1, meta))
    body = protobuf.read(TYPES.structs, b"k8s\x00" + unknown)
    assert body == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"a": "b"}},
    }


@pytest.mark.parametrize("body", [b"", b"k8s\x00\xff", b"{}", b"k8s\x00" + bytes([10, 200])])
def test_a_broken_protobuf_body_is_a_bad_request(body: bytes):
    with pytest.raises(StatusError) as refused:
        protobuf.read(TYPES.structs, body)
    assert refused.value.code == 400
