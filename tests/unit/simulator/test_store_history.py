"""The store: consistent pages, indexes, and a history with an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.core.entries import Expired
from simulator.core.store import Store


def _put(store: Store, name: str, namespace: str = "a", **meta: object) -> None:
    uid = f"{namespace}/{name}"
    store.put("configmaps", {"metadata": {"name": name, "namespace": namespace, "uid": uid, **meta}})


def _names(
    store: Store, rv: int, *, limit: int = 0, after: str = "", namespace: str | None = None
) -> tuple[list[str], str, int]:
    page = store.collection("configmaps").page(namespace, rv, store.rv, after=after, limit=limit)
    return [f"{e.namespace}/{e.name}" for e in page.entries], page.after, page.remaining


def test_a_list_is_in_the_order_of_keys_across_namespaces():
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "c")):
        _put(store, name, namespace)
    assert _names(store, store.rv)[0] == ["a-b/y", "a/c", "a/z", "b/x"]  # "-" sorts before "/"


def test_later_pages_show_the_list_as_it_was_at_the_first_page():
    store = Store()
    for name in "bdfh":
        _put(store, name)
    rv = store.rv
    first, after, remaining = _names(store, rv, limit=2)
    assert (first, remaining) == (["a/b", "a/d"], 2)
    _put(store, "e")
    entry = store.collection("configmaps").get("a", "f")
    assert entry is not None
    store.remove("configmaps", entry)
    assert _names(store, rv, after=after) == (["a/f", "a/h"], "", 0)
    assert _names(store, store.rv, after=after)[0] == ["a/e", "a/h"]


def test_the_remaining_count_spans_namespaces():
    store = Store()
    for namespace in "abc":
        for name in "xyz":
            _put(store, name, namespace)
    assert _names(store, store.rv, limit=4)[2] == 5


def test_a_version_older_than_the_history_is_expired():
    store = Store(history=5)
    first = store.rv
    for number in range(20):
        _put(store, f"n{number}")
    with pytest.raises(Expired):
        store.collection("configmaps").events_after(first)
    assert len(store.collection("configmaps").events_after(store.rv - 3)) == 3


def test_the_label_index_follows_changes_and_deletions():
    store = Store()
    _put(store, "x", labels={"job": "a"})
    _put(store, "y", labels={"job": "a"})
    collection = store.collection("configmaps")
    assert {e.name for e in collection.labelled("job", "a")} == {"x", "y"}
    _put(store, "x", labels={"job": "b"})
    entry = collection.get("a", "y")
    assert entry is not None
    store.remove("configmaps", entry)
    assert collection.labelled("job", "a") == []
    assert [e.name for e in collection.labelled("job", "b")] == ["x"]


_OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["put", "remove"]), st.sampled_from("abcdef"), st.sampled_from(["m", "n"])),
    max_size=30,
)


@given(_OPERATIONS, _OPERATIONS, st.integers(1, 4))
def test_a_list_at_a_version_is_what_was_stored_then(before: list, after: list, limit: int):
    store = Store()

    def run(operations: list) -> None:
        for operation, name, namespace in operations:
            entry = store.collection("configmaps").get(namespace, name)
            if operation == "put":
                _put(store, name, namespace)
            elif entry is not None:
                store.remove("configmaps", entry)

    run(before)
    rv = store.rv
    then = _names(store, rv)[0]
    run(after)
    assert _names(store, rv)[0] == then
    seen: list[str] = []
    last = ""
    while True:
        names, last, _ = _names(store, rv, limit=limit, after=last)
        seen += names
        if not last:
            break
    assert seen == then
