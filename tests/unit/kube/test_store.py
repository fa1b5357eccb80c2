"""Which of two reports about an object is the newer one, whatever side it comes from."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.kube.port import JSON, Listing, WatchEvent
from shared.kube.store import Change, Store


def obj(name: str, rv: int, uid: str = "", **extra: str) -> JSON:
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(rv),
            **extra,
        }
    }


def added(thing: JSON) -> WatchEvent:
    return WatchEvent("ADDED", thing)


def modified(thing: JSON) -> WatchEvent:
    return WatchEvent("MODIFIED", thing)


def deleted(thing: JSON) -> WatchEvent:
    return WatchEvent("DELETED", thing)


def test_a_list_fills_the_store_and_reports_each_object_as_new():
    store = Store()
    a, b = obj("a", 3), obj("b", 5)
    assert store.replace(Listing([a, b], "7")) == [Change(None, a), Change(None, b)]
    assert store.position == 7


def test_a_second_list_reports_only_the_difference_and_ends_which_the_watch_missed():
    store = Store()
    a, b, c = obj("a", 3), obj("b", 5), obj("c", 6)
    store.replace(Listing([a, b, c], "7"))
    b2 = obj("b", 9)
    assert store.replace(Listing([a, b2], "10")) == [Change(c, None), Change(b, b2)]


def test_a_list_does_not_take_away_what_is_newer_than_itself():
    store = Store()
    store.replace(Listing([], "7"))
    mine = obj("mine", 12)
    store.upsert(mine)
    assert store.replace(Listing([], "10")) == []
    assert store.objects == {("ns", "mine"): mine}


def test_a_list_older_than_what_was_seen_replaces_everything():
    store = Store()
    old = obj("a", 90, uid="first life")
    store.replace(Listing([old, obj("gone", 80)], "100"))
    new = obj("a", 2, uid="second life")
    changes = store.replace(Listing([new], "3"))
    assert changes == [Change(obj("gone", 80), None), Change(old, None), Change(None, new)]
    assert store.position == 3


def test_the_answer_to_a_write_is_not_undone_by_an_older_event():
    store = Store()
    store.replace(Listing([obj("a", 3)], "3"))
    store.upsert(obj("a", 6))
    assert store.apply(modified(obj("a", 5))) == []
    assert store.apply(modified(obj("a", 6))) == []
    assert store.objects["ns", "a"] == obj("a", 6)


def test_a_late_answer_does_not_bring_back_what_the_watch_saw_deleted():
    store = Store()
    store.replace(Listing([obj("a", 3)], "3"))
    assert store.apply(deleted(obj("a", 8))) == [Change(obj("a", 8), None)]
    assert store.upsert(obj("a", 6)) == []
    assert store.objects == {}


def test_what_was_forgotten_does_not_come_back_by_a_stale_event_but_its_successor_is_new():
    store = Store()
    first = obj("a", 3)
    store.replace(Listing([first], "3"))
    assert store.forget(first) == [Change(first, None)]
    assert store.apply(modified(obj("a", 5))) == []
    assert store.apply(deleted(obj("a", 6))) == []
    second = obj("a", 7, uid="another")
    assert store.apply(added(second)) == [Change(None, second)]


def test_a_successor_upserted_before_the_end_of_its_predecessor_arrives_stays():
    store = Store()
    first = obj("a", 3)
    store.replace(Listing([first], "3"))
    store.forget(first)
    second = obj("a", 7, uid="another")
    assert store.upsert(second) == [Change(None, second)]
    assert store.apply(deleted(obj("a", 6))) == []
    assert store.objects["ns", "a"] == second


def test_a_list_begun_after_a_forget_decides_that_the_object_still_lives():
    store = Store()
    first = obj("a", 3)
    store.replace(Listing([first], "3"))
    store.forget(first)
    store.begin_list()
    assert store.replace(Listing([first], "5")) == [Change(None, first)]


def test_a_list_begun_before_a_forget_does_not_bring_the_object_back():
    store = Store()
    first = obj("a", 3)
    store.replace(Listing([first], "3"))
    store.begin_list()
    store.forget(first)
    assert store.replace(Listing([first], "5")) == []


def test_forgetting_what_the_watch_already_ended_leaves_no_trace():
    store = Store()
    store.replace(Listing([obj("a", 3)], "3"))
    store.apply(deleted(obj("a", 6)))
    assert store.forget(obj("a", 3)) == []
    assert store._forgotten == set()


def test_an_object_replaced_by_another_of_its_name_is_reported_as_gone_first():
    store = Store()
    first, second = obj("a", 3, uid="one"), obj("a", 9, uid="two")
    store.replace(Listing([first], "3"))
    assert store.apply(modified(second)) == [Change(first, None), Change(None, second)]


def test_a_bookmark_moves_the_position_only():
    store = Store()
    assert store.apply(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "42"}})) == []
    assert (store.position, store.objects) == (42, {})


def test_an_index_follows_additions_changes_and_ends():
    store = Store({"job": lambda pod: [pod["metadata"]["job"]] if "job" in pod["metadata"] else []})
    store.replace(Listing([obj("a", 1, job="x"), obj("b", 2, job="x"), obj("c", 3)], "3"))
    assert [pod["metadata"]["name"] for pod in store.by("job", "x")] == ["a", "b"]
    store.apply(modified(obj("a", 4, job="y")))
    assert [pod["metadata"]["name"] for pod in store.by("job", "x")] == ["b"]
    assert [pod["metadata"]["name"] for pod in store.by("job", "y")] == ["a"]
    store.apply(deleted(obj("b", 5, job="x")))
    assert store.by("job", "x") == []


names = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(names, st.sampled_from(["set", "delete"])), max_size=30), st.data())
def test_whatever_answers_come_late_the_store_ends_as_the_server_is(operations, data):
    """A server's history, watched in order, mixed with answers to writes at any later moment."""
    live: dict[str, JSON] = {}
    events: list[WatchEvent] = []
    lives = dict.fromkeys("abc", 0)
    for rv, (name, operation) in enumerate(operations, start=1):
        if operation == "set":
            new = name not in live
            lives[name] += new
            live[name] = obj(name, rv, uid=f"{name}-{lives[name]}")
            events.append(added(live[name]) if new else modified(live[name]))
        elif name in live:
            uid = live.pop(name)["metadata"]["uid"]
            events.append(deleted(obj(name, rv, uid=uid)))
    store = Store()
    mirror: dict[str, JSON] = {}
    shown = 0
    while shown < len(events):
        index = data.draw(st.integers(0, len(events) - 1))
        answer = events[index]
        if data.draw(st.booleans()):
            changes = store.forget(answer.object) if answer.type == "DELETED" else store.upsert(answer.object)
        else:
            changes = store.apply(events[shown])
            shown += 1
        for old, new in changes:
            if new is None:
                assert old is not None
                del mirror[old["metadata"]["name"]]
            else:
                mirror[new["metadata"]["name"]] = new
    # An answer to a write may be ahead of the watch, and a forget is final: the rest must be the server's.
    assert {key[1]: thing for key, thing in store.objects.items()} == mirror == live
