"""The pure parts: events, manifests, durations and amounts, pictures."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import pumice
from pumice import config
from pumice.errors import ManifestError
from pumice.manifest import body_of, documents
from pumice.models import Change, JobEvent, JobView, Reason, Span, Waiting
from pumice.render import progress, timeline, timeline_lines, waterfall
from pumice.render.live import picture
from pumice.render.text import age, amount, amounts, description, duration, explanation
from pumice.render.waterfalls import bar
from pumice.sse import Parser, ServerEvent

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def parsed(text: str, last_id: str = "") -> tuple[list[ServerEvent], Parser]:
    parser = Parser(last_id)
    return [event for line in text.split("\n") if (event := parser.feed(line))], parser


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("data: a\n\n", [("", "message", "a")]),
        ("id: 1\nevent: phase\ndata: a\ndata:b\n\n", [("1", "phase", "a\nb")]),
        (": comment\nid: 1\n\ndata\n\n", [("1", "message", "")]),
        ("data: a\n\ndata: b", [("", "message", "a")]),
        ("id: 1\ndata: a\n\ndata: b\n\n", [("1", "message", "a"), ("1", "message", "b")]),
        ("nonsense: x\ndata:  two spaces\n\n", [("", "message", " two spaces")]),
    ],
)
def test_events_are_read_as_the_standard_says(text, events):
    assert [(one.id, one.event, one.data) for one in parsed(text)[0]] == events


def test_an_event_that_was_cut_off_does_not_count_as_seen():
    assert parsed("id: 1\ndata: a\n\nid: 2\ndata: b")[1].last_id == "1"


def test_the_pause_that_the_server_asks_for_is_read():
    assert parsed("retry: 2500\n\n")[1].retry == 2.5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("2026-01-01", "2026-01-01"),
        ("12:30:00", "12:30:00"),
        ("true", True),
        ("0644", 420),
        ("0x10", 16),
        ("1_000", "1_000"),
        ("-7", -7),
        ("1.5", 1.5),
        ("500m", "500m"),
        ("~", None),
    ],
)
def test_values_are_read_as_kubernetes_reads_them(text, value):
    assert documents(f"a: {text}") == [{"a": value}]


def test_empty_documents_do_not_count():
    assert documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_json_is_read_as_json(value):
    assert documents(json.dumps({"a": value})) == [{"a": value}]


@pytest.mark.parametrize("text", ["a: {}", '{{"a": {}}}'])
def test_a_text_that_is_nested_too_deeply_is_no_manifest(text):
    deep = 100_000
    with pytest.raises(ManifestError, match="is nested too deeply"):
        documents(text.format("[" * deep + "]" * deep), "train.yaml")


def test_the_namespace_is_filled_in_where_there_is_none_and_nothing_else_is_touched():
    full = {"apiVersion": "x", "kind": "Job", "metadata": {"name": "a"}}
    assert body_of(full, "team")["metadata"] == {"name": "a", "namespace": "team"}
    assert full["metadata"] == {"name": "a"}
    assert body_of({"kind": "Job", "metadata": 7}, "team") == {"kind": "Job", "metadata": 7}
    assert body_of(pumice.Job(name="a", image="b", namespace="mine"), "team")["namespace"] == "mine"


def test_a_wrong_field_of_the_short_form_is_a_mistake_at_once():
    with pytest.raises(ValueError, match="gpu"):
        pumice.Job(name="a", image="b", gpu=8)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.256, "0.26s"),
        (9.5, "9.5s"),
        (42.7, "42s"),
        (187, "3m7s"),
        (3600, "1h"),
        (3725, "1h2m"),
        (187200, "2d4h"),
    ],
)
def test_durations_have_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@given(st.floats(0, 1e8))
def test_a_duration_is_never_empty(seconds):
    assert duration(seconds)


def test_an_age_is_never_negative():
    assert age(NOW + timedelta(seconds=5), NOW) == "0s"


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [("cpu", 64000, "64"), ("cpu", 1500, "1.5"), ("cpu", 250, "250m"), ("memory", 1 << 30, "1Gi"), ("memory", 3 << 29, "1.5Gi"), ("memory", 100, "100"), ("nvidia.com/gpu", 8, "8")],
)  # fmt: skip
def test_amounts_are_written_as_people_do(resource, value, text):
    assert amount(resource, value) == text


def test_scarce_amounts_come_first():
    assert (
        amounts({"cpu": 1000, "memory": 1 << 30, "nvidia.com/gpu": 8}) == "nvidia.com/gpu=8 cpu=1 memory=1Gi"
    )


@pytest.mark.parametrize(
    ("text", "server"), [("host:80", "http://host:80"), ("https://h/base/", "https://h/base")]
)
def test_an_address_may_lack_its_scheme(text, server):
    assert config.resolve(server=text, namespace="x").server == server


def test_explain_of_a_job_that_nobody_looked_at_says_so():
    lines = explanation(JobView(name="a", phase="Admitted", submitted_at=NOW), NOW)
    assert lines == [
        "job default/a waits in queue default for 0s (phase Admitted)",
        "why:       the scheduler has not looked at it yet",
    ]


def test_explain_of_a_deleted_job_says_that_it_is():
    job = JobView(name="a", phase="Running", started=True, deleted=True)
    assert explanation(job, NOW) == ["job default/a was deleted: it was Running"]


def test_explain_of_a_job_that_runs_says_why_more_of_its_pods_wait():
    waiting = Waiting(waiting_since=NOW, reason=Reason(code="no-room", message="2 more need 2 GPUs"))
    lines = explanation(JobView(name="a", phase="Running", started=True, waiting=waiting), NOW)
    assert lines[0].startswith("job default/a runs in queue default: ")
    assert lines[1:3] == ["More of its pods wait.", "why:       2 more need 2 GPUs"]


def test_progress_in_a_pipe_says_each_thing_once():
    lines: list[str] = []
    pending = JobView(name="a", phase="Pending", replicas=4)
    changes = [
        Change(pending),
        Change(pending),
        Change(JobView(name="a", phase="Running", replicas=4, pods={"running": 4})),
    ]
    last = progress(changes, write=lines.append, now=lambda: NOW)
    assert lines == ["03:04:05.000  Pending  a  0/4 pods", "03:04:05.000  Running  a  4/4 pods"]
    assert last is not None
    assert last.phase == "Running"


def terminal() -> Console:
    return Console(force_terminal=True, width=100, record=True, color_system="truecolor")


def test_progress_on_a_terminal_ends_with_the_last_state(capsys):
    console = terminal()
    job = JobView(name="a", phase="Completed", replicas=4, pods={"succeeded": 4}, submitted_at=NOW)
    progress([Change(job)], console=console, now=lambda: NOW + timedelta(seconds=90))
    out = capsys.readouterr().out
    assert "Completed" in out
    assert "4/4 pods" in out
    assert "1m30s" in out


def test_the_picture_of_a_waiting_job_says_why_and_where_in_the_queue():
    job = JobView.model_validate(
        {
            "name": "a",
            "phase": "Pending",
            "waiting": {"reason": {"message": "no room"}, "position": 2, "queueLength": 3},
        }
    )
    console = terminal()
    console.print(picture(job, NOW))
    text = console.export_text()
    assert "no room" in text
    assert "2 of 3 in queue default" in text


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [(0, 1, "████████"), (0.5, 1, "    ████"), (0, 0, "▏"), (1, 1, "       ▏"), (0.25, 0.3125, "  ▌")],
)
def test_a_bar_lies_where_its_span_does(start, end, text):
    assert bar(start, end, 8) == text


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 100))
def test_a_bar_is_never_empty_nor_too_long(one, other, width):
    text = bar(min(one, other), max(one, other), width)
    assert 0 < len(text) <= width
    assert text.strip()


def test_a_waterfall_shows_a_span_that_goes_on():
    spans = [
        Span(span_id="a", name="job", service="controller", start=NOW),
        Span(span_id="b", parent_id="a", name="admit", start=NOW, end=NOW + timedelta(seconds=1)),
    ]
    console = terminal()
    console.print(waterfall(spans))
    rows = console.export_text().splitlines()
    assert "goes on" in rows[1]
    assert rows[2].lstrip().startswith("admit")


def test_spans_in_a_ring_are_not_followed_for_ever():
    ring = [Span(span_id="a", parent_id="b", start=NOW), Span(span_id="b", parent_id="a", start=NOW)]
    console = terminal()
    console.print(waterfall(ring))


def test_a_timeline_says_what_happened_and_how_long_it_took():
    events = [
        JobEvent(
            kind="report", time=NOW, data={"reason": {"message": "no room"}, "position": 1, "queueLength": 4}
        ),
        JobEvent(kind="decision", time=NOW + timedelta(seconds=2.5), data={"bindings": [1, 2]}),
        JobEvent(kind="phase", time=NOW + timedelta(seconds=3), data={"phase": "Running"}),
    ]
    assert timeline_lines(events) == [
        "03:04:05.000            report  no room  position 1 of 4",
        "03:04:07.500     +2.5s  decision  2 bindings",
        "03:04:08.000     +0.5s  phase  Running",
    ]
    console = terminal()
    console.print(timeline(events))
    assert "2 bindings" in console.export_text()


def test_a_description_shows_where_exposed_ports_are_reached() -> None:
    job = JobView(name="note", urls={"jupyter": "https://jupyter.example.org"})
    lines = description(job, datetime(2026, 1, 1, tzinfo=UTC))
    assert lines[lines.index("URLs:") + 1] == "  jupyter  https://jupyter.example.org"
    assert "URLs:" not in description(JobView(name="plain"), datetime(2026, 1, 1, tzinfo=UTC))
