"""What may stand on a topic, and what is refused with which reason."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from shared.errors import ContractError
from shared.events import topics
from shared.events.codec import data_of, decode, encode, parse
from shared.events.contracts import (
    Binding,
    CommandJob,
    Gang,
    GangDecided,
    GangReady,
    GangRef,
    GangTask,
    JobAction,
    JobSubmitted,
    Member,
    PodState,
    Shape,
    Toleration,
)
from shared.events.envelope import Envelope
from shared.log.port import Delivery, Record

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}


def delivered(record: Record) -> Delivery:
    return Delivery(record.topic, 0, 7, int(NOW.timestamp() * 1000), record.key, record.value, record.headers)


def raw(
    value: bytes | str, headers: dict[str, str] | None = None, topic: str = topics.JOB_SUBMITTED
) -> Delivery:
    body = value.encode() if isinstance(value, str) else value
    pairs = tuple((name, text.encode()) for name, text in (headers or {}).items())
    return delivered(Record(topic, b"ns/train", body, pairs))


BINARY = {
    "ce_specversion": "1.0",
    "ce_id": "42",
    "ce_source": "/somebody",
    "ce_type": JobSubmitted.TYPE,
    "content-type": "application/json",
}


def test_an_event_survives_the_log_with_its_attributes_and_its_trace():
    shape = Shape(requests={"cpu": 1000, "nvidia.com/gpu": 8}, node_selector={"disk": "ssd"})
    task = GangTask(name="worker", shape=shape, members=(Member(pod="train-worker-0"),), minimum=1)
    gang = Gang(
        namespace="ns", name="train-1", uid="u", min_member=1, tasks=(task,), created_at=NOW, ready_since=NOW
    )
    sent = Envelope(
        id="1",
        source="/controller",
        time=NOW,
        subject="ns/train",
        data=GangReady(gang=gang),
        traceparent=TRACE,
    )
    assert decode(delivered(encode(topics.PODGROUP_READY, b"default", sent))) == sent


def test_a_record_is_a_binary_cloudevent_with_a_trace_header():
    event = CommandJob(namespace="ns", name="train", action=JobAction.SUSPEND)
    record = encode(
        topics.JOB_COMMANDS,
        b"ns/train",
        Envelope(id="1", source="/gateway", time=NOW, data=event, traceparent=TRACE),
    )
    assert dict(record.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/gateway",
        "ce_type": b"dev.pumice.job.command.v1",
        "ce_time": b"2026-01-02T03:04:05.678000Z",
        "content-type": b"application/json",
        "traceparent": TRACE.encode(),
    }
    assert json.loads(record.value or b"") == {"namespace": "ns", "name": "train", "action": "suspend"}


@pytest.mark.parametrize(
    ("delivery", "identity"),
    [
        (raw(json.dumps({"job": JOB}), BINARY), "42"),
        (raw(json.dumps(JOB), BINARY), "42"),
        (raw(yaml.safe_dump(JOB), BINARY | {"content-type": "application/yaml"}), "42"),
        (
            raw(
                json.dumps(
                    {
                        "specversion": "1.0",
                        "id": "43",
                        "source": "/s",
                        "type": JobSubmitted.TYPE,
                        "data": {"job": JOB},
                    }
                ),
                {"content-type": "application/cloudevents+json; charset=utf-8"},
            ),
            "43",
        ),
        (
            raw(
                yaml.safe_dump(
                    {"specversion": "1.0", "id": "44", "source": "/s", "type": JobSubmitted.TYPE, "data": JOB}
                )
            ),
            "44",
        ),
        (raw(json.dumps(JOB)), "job-submitted-0-7"),
        (raw(yaml.safe_dump(JOB)), "job-submitted-0-7"),
        (raw("# a comment\n---\n" + yaml.safe_dump(JOB)), "job-submitted-0-7"),
    ],
    ids=[
        "binary",
        "binary-bare-data",
        "binary-yaml",
        "structured",
        "structured-yaml",
        "bare",
        "bare-yaml",
        "yaml-document",
    ],
)
def test_a_submission_may_come_in_any_of_these_forms(delivery: Delivery, identity: str):
    envelope = decode(delivery)
    assert envelope.id == identity
    assert isinstance(envelope.data, JobSubmitted)
    assert envelope.data.job == JOB
    assert data_of(delivery) == envelope.data


def test_a_bare_job_is_the_same_submission_when_it_is_read_again():
    assert decode(raw(json.dumps(JOB))).id == decode(raw(json.dumps(JOB))).id


@pytest.mark.parametrize("name", ["traceparent", "ce_traceparent"])
def test_the_trace_of_a_foreign_producer_is_continued(name: str):
    assert decode(raw(json.dumps(JOB), BINARY | {name: TRACE})).traceparent == TRACE


def test_a_timestamp_in_yaml_stays_text_as_in_kubernetes():
    job = decode(raw("apiVersion: v1\nkind: Job\nmetadata: {annotations: {at: 2026-01-02}}\n")).data
    assert isinstance(job, JobSubmitted)
    assert job.job["metadata"]["annotations"]["at"] == "2026-01-02"


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        (raw("{not: [json"), "not-json-or-yaml"),
        (raw(b"\xff\xfe\x00"), "not-json-or-yaml"),
        (raw("just words"), "not-json-or-yaml"),
        (raw("[1, 2]"), "not-a-job"),
        (raw("{}"), "not-a-job"),
        (raw("a: 1\n---\nb: 2\n"), "not-json-or-yaml"),
        (
            raw(json.dumps({"job": JOB}), BINARY | {"ce_type": "dev.pumice.job.submitted.v9"}),
            "unknown-contract-version",
        ),
        (raw(json.dumps({"job": JOB}), BINARY | {"ce_type": "com.example.thing"}), "unknown-event-type"),
        (raw(json.dumps({"job": JOB}), BINARY | {"ce_type": GangDecided.TYPE}), "wrong-topic"),
        (raw(json.dumps({"job": JOB}), BINARY | {"ce_specversion": "0.3"}), "not-a-cloudevent"),
        (raw(json.dumps({"job": JOB}), BINARY | {"ce_time": "yesterday"}), "not-a-cloudevent"),
        (
            raw(json.dumps({"job": JOB}), {k: v for k, v in BINARY.items() if k != "ce_id"}),
            "not-a-cloudevent",
        ),
        (raw(json.dumps({"job": 3}), BINARY), "invalid-data"),
        (raw("{}", topic=topics.JOB_COMMANDS), "not-a-cloudevent"),
        (
            raw('{"namespace":"a"}', BINARY | {"ce_type": CommandJob.TYPE}, topic=topics.JOB_COMMANDS),
            "invalid-data",
        ),
        (raw("x: &a [*a]"), "too-deep"),
        (
            raw(
                "".join(
                    f"{n}: &{n} {'[' * 40}{p}{']' * 40}\n" for p, n in (("1", "a"), ("*a", "b"), ("*b", "c"))
                )
            ),
            "too-deep",
        ),
        (raw('{"kind": "Job", "x": ' + "[" * 101 + "]" * 101 + "}"), "too-deep"),
        (
            raw(
                "a: &a [x, x, x, x]\n"
                + "".join(
                    f"{n}: &{n} [*{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}, *{p}]\n"
                    for p, n in zip("abcdefgh", "bcdefghi", strict=True)
                )
            ),
            "too-large",
        ),
        (raw("[" * 100_000), "not-json-or-yaml"),
        (
            raw(json.dumps({"job": JOB}), BINARY | {"ce_time": "0001-01-01T00:00:00+10:00"}),
            "not-a-cloudevent",
        ),
        # microseconds, where Kafka has milliseconds
        (replace(raw(json.dumps(JOB)), timestamp_ms=int(NOW.timestamp() * 10**6)), "invalid-timestamp"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(delivery: Delivery, reason: str):
    with pytest.raises(ContractError) as refusal:
        decode(delivery)
    assert refusal.value.reason == reason
    if not {reason, *dict(delivery.headers)} & {"ce_time", "invalid-timestamp"}:
        with pytest.raises(ContractError) as refusal:
            data_of(delivery)
        assert refusal.value.reason == reason


def test_the_data_alone_is_read_whatever_time_its_event_names():
    delivery = raw(json.dumps({"job": JOB}), BINARY | {"ce_time": "yesterday"})
    assert data_of(delivery) == JobSubmitted(job=JOB)


def pod_with(shape: str) -> Delivery:
    state = f'{{"namespace":"ns","name":"p","uid":"u","createdAt":"2026-01-01T00:00:00Z","shape":{shape}}}'
    return raw(state, BINARY | {"ce_type": PodState.TYPE}, topic=topics.CLUSTER_STATE)


def shape_of(delivery: Delivery) -> Shape:
    state = data_of(delivery)
    assert isinstance(state, PodState)
    return state.shape


def test_shapes_that_are_written_alike_are_read_as_one_object():
    one = pod_with('{"requests":{"cpu":1000},"tolerations":[{"key":"gpu"}]}')
    other = pod_with('{"requests":{"cpu":2000},"tolerations":[{"key":"gpu"}]}')
    assert shape_of(one) is shape_of(one)
    assert shape_of(other).requests == {"cpu": 2000}
    assert shape_of(one) == Shape(requests={"cpu": 1000}, tolerations=(Toleration(key="gpu"),))


def test_a_shape_that_was_forgotten_is_read_anew():
    first = shape_of(pod_with('{"requests":{"cpu":7}}'))
    for number in range(5000):
        shape_of(pod_with(f'{{"requests":{{"memory":{number}}}}}'))
    again = shape_of(pod_with('{"requests":{"cpu":7}}'))
    assert again == first
    assert again is not first


def test_an_amount_beyond_64_bits_is_read_as_it_is():
    assert shape_of(pod_with(f'{{"requests":{{"cpu":{10**30}}}}}')).requests == {"cpu": 10**30}


def test_a_wrong_shape_is_refused_each_time_and_its_field_is_named():
    for _ in range(2):
        with pytest.raises(ContractError, match=r"shape\.requests\.cpu"):
            data_of(pod_with('{"requests":{"cpu":"many"}}'))


def test_a_field_that_a_newer_writer_added_is_ignored():
    decided = GangDecided(
        decision="d",
        pool="default",
        gang=GangRef(namespace="ns", name="g", uid="u"),
        bindings=(Binding(pod="p", task="t", node="n"),),
        decided_at=NOW,
    )
    record = encode(topics.BIND_DECISIONS, b"default", Envelope(id="1", source="/s", time=NOW, data=decided))
    newer = json.loads(record.value or b"") | {"invented": {"later": True}}
    read = decode(delivered(Record(record.topic, record.key, json.dumps(newer).encode(), record.headers)))
    assert read.data == decided


def test_parse_reads_one_object_in_json_or_yaml():
    assert parse(b'{"a": 1}') == parse(b"a: 1") == {"a": 1}
