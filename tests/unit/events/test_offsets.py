"""An offset is committed only when its message and all before it are finished."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.events.offsets import OffsetTracker
from shared.log.port import TopicPartition

P = TopicPartition("t", 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_never_past_an_unfinished_message(gaps, random):
    offsets, at = [], 0
    for gap in gaps:
        at += gap
        offsets.append(at)
        at += 1
    tracker = OffsetTracker()
    for offset in offsets:
        tracker.begin(P, offset)
    order = offsets.copy()
    random.shuffle(order)
    unfinished = set(offsets)
    for offset in order:
        tracker.finish(P, offset)
        unfinished.discard(offset)
        committable = tracker.committable().get(P)
        if committable is not None:
            assert all(offset >= committable for offset in unfinished)
        assert tracker.in_flight() == len(unfinished)
    assert tracker.committable() == {P: offsets[-1] + 1}


def test_a_commit_is_not_made_twice():
    tracker = OffsetTracker()
    tracker.begin(P, 4)
    tracker.finish(P, 4)
    tracker.committed(tracker.committable())
    assert tracker.committable() == {}


def test_a_forgotten_partition_takes_no_late_results():
    tracker = OffsetTracker()
    tracker.begin(P, 1)
    tracker.forget([P])
    tracker.finish(P, 1)
    assert tracker.committable() == {}
    assert tracker.in_flight() == 0
