"""The in-process log's pure core."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as kafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Fenced
from shared.log.core.groups import assign
from shared.log.core.partitioner import murmur2, partition_for
from shared.log.core.state import Limits, State
from shared.log.port import Cleanup, Record, TopicPartition, TopicSpec

WHERE = TopicPartition("t", 0)


@given(st.binary(max_size=64))
def test_the_hash_is_kafkas(key):
    assert murmur2(key) == kafka_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536)],
)
def test_the_hash_has_the_values_of_kafkas_own_tests(key, hashed):
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_for(key, 10) == (hashed & 0x7FFFFFFF) % 10


@given(
    members=st.dictionaries(
        st.text(min_size=1, max_size=3), st.sets(st.sampled_from("abc"), min_size=1), max_size=6
    ),
    partitions=st.fixed_dictionaries({topic: st.integers(1, 9) for topic in "abc"}),
)
def test_every_wanted_partition_has_one_owner_and_shares_differ_by_one(members, partitions):
    wanted = {topic for topics in members.values() for topic in topics}
    shares = assign({m: sorted(t) for m, t in members.items()}, {t: partitions[t] for t in wanted})
    owned = [where for share in shares.values() for where in share]
    assert sorted(owned) == sorted(TopicPartition(t, n) for t in wanted for n in range(partitions[t]))
    for topic in wanted:
        counts = [
            sum(where.topic == topic for where in shares[member])
            for member, topics in members.items()
            if topic in topics
        ]
        assert max(counts) - min(counts) <= 1


def test_a_rolled_back_change_leaves_no_gap():
    state = _state()
    state.stage_records(_records(5), 0)
    state.rollback()
    change = state.stage_records(_records(2), 0)
    state.publish(change)
    assert [d.offset for d in state.partitions[WHERE].read(0, 9).records] == [0, 1]


def test_a_staged_change_is_invisible():
    state = _state()
    change = state.stage_records(_records(3), 0)
    assert state.partitions[WHERE].read(0, 9).records == []
    state.publish(change)
    assert len(state.partitions[WHERE].read(0, 9).records) == 3


def test_a_transaction_takes_one_offset_more_as_kafkas_marker_does():
    state = _state()
    epoch = state.stage_epoch("id").epochs["id"]
    state.publish(state.stage_transaction(("id", epoch), _records(2), {}, 0))
    state.publish(state.stage_records(_records(1), 0))
    assert [d.offset for d in state.partitions[WHERE].read(0, 9).records] == [0, 1, 3]
    assert state.partitions[WHERE].read(0, 2).position == 3


def test_an_older_epoch_is_fenced_at_its_commit():
    state = _state()
    old = state.stage_epoch("id").epochs["id"]
    state.stage_epoch("id")
    with pytest.raises(Fenced):
        state.stage_transaction(("id", old), _records(1), {}, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 9)), st.booleans()),
        max_size=60,
    )
)
def test_compaction_at_any_moment_leaves_the_same_last_values(writes):
    state = _state(compacted=True, limits=Limits(tombstone_ms=10_000))
    last: dict[bytes, bytes | None] = {}
    for now, (key, number, sweep) in enumerate(writes):
        value = None if number is None else str(number).encode()
        state.publish(state.stage_records([Record("t", key.encode(), value)], now))
        last[key.encode()] = value
        if sweep:
            state.publish(state.stage_forget(now, {}))
    read = state.partitions[WHERE].read(0, 100).records
    offsets = [d.offset for d in read]
    assert offsets == sorted(offsets)
    assert {d.key: d.value for d in read} == last
    state.publish(state.stage_forget(100_000, {}))  # tombstones have had their time
    final = state.partitions[WHERE].read(0, 100).records
    assert {d.key: d.value for d in final} == {k: v for k, v in last.items() if v is not None}
    assert len({d.key for d in final}) == len(final)


def test_forgetting_below_an_offset_moves_the_start():
    state = _state()
    state.publish(state.stage_records(_records(5), 0))
    state.publish(state.stage_forget(0, {WHERE: 3}))
    partition = state.partitions[WHERE]
    assert (partition.start, partition.end) == (3, 5)
    assert [d.offset for d in partition.read(0, 9).records] == [3, 4]


def _state(*, compacted: bool = False, limits: Limits | None = None) -> State:
    state = State(limits or Limits())
    cleanup = Cleanup.COMPACT if compacted else Cleanup.DELETE
    state.publish(state.stage_topics([TopicSpec("t", 1, cleanup)]))
    return state


def _records(count: int) -> list[Record]:
    return [Record("t", b"k", str(n).encode()) for n in range(count)]
