"""The score of images that nodes have, against kube-scheduler's formula, whatever came and went before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from services.controller.core.facts import node_state
from services.controller.core.model import Priorities
from services.controller.core.shapes import shape_of
from services.scheduler.core.model import Model
from services.scheduler.core.policy import Policy, Scores
from services.scheduler.core.scores import Score
from shared.api.pods import PodSpec
from shared.events import contracts as c

MB = 1 << 20
NAMES = ["a:1", "b:1", "c:1", "d@sha256:0"]
WEIGHT = 3.0
POLICY = Policy(scores=Scores(binpack_weight=0.0, image_weight=WEIGHT))
IMAGES = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from([1 * MB, 22 * MB, 23 * MB, 400 * MB, 5000 * MB])
)
STEPS = st.lists(st.tuples(st.integers(0, 4), st.none() | IMAGES), min_size=1, max_size=8)


def kube_scheduler(nodes: dict[str, dict[str, int]], name: str, images: list[str]) -> int:
    """kube-scheduler's points of one node, 0..100."""
    total = 0
    for image in images:
        if image in nodes[name]:
            spread = sum(image in one for one in nodes.values()) / len(nodes)
            total += int(nodes[name][image] * spread)
    most = 1000 * MB * len(images)
    return 100 * (min(max(total, 23 * MB), most) - 23 * MB) // (most - 23 * MB)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, images=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))
def test_images_make_kube_schedulers_points(steps, images) -> None:
    model, books = Model(policy=POLICY), dict[str, dict[str, int]]()
    shape = model.shapes.intern(c.Shape(requests={"cpu": 1}, images=tuple(sorted(images))))
    score = Score(shape, model.nodes, POLICY.scores, model.typical)
    for number, held in steps:
        name = f"n{number}"
        if held is None:
            books.pop(name, None)
            model.remove_node(name)
        else:
            books[name] = {image: size for image, size in held.items() if size >= 23 * MB}
            state = c.NodeState(name=name, allocatable={"cpu": 10}, images=books[name])
            model.apply_node(state)
        score.refresh()
        expected = {name: WEIGHT * kube_scheduler(books, name, images) for name in books}
        assert {name: score.one(model.nodes.slots[name]) for name in books} == expected
        index = model.index(shape)
        if index.total:
            best = model.nodes.names[index.take(1).slots[0]]
            assert expected[best] == max(expected.values())


def test_a_node_tells_its_large_images_by_each_of_their_names() -> None:
    images = [
        {"names": ["train@sha256:0", "train:1"], "sizeBytes": 23 * MB},
        {"names": ["small:1"], "sizeBytes": 23 * MB - 1},
        {"sizeBytes": 99 * MB},
    ]
    raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"images": images}}
    assert node_state(raw).images == {"train:1": 23 * MB, "train@sha256:0": 23 * MB}


def test_a_pod_tells_its_images_with_their_tags() -> None:
    spec = {
        "initContainers": [{"name": "i", "image": "registry:5000/team/init"}],
        "containers": [
            {"name": "a", "image": "train:1"},
            {"name": "b", "image": "train@sha256:0"},
            {"name": "c", "image": "train:1"},
        ],
    }
    shape = shape_of(PodSpec.model_validate(spec), {}, Priorities())
    assert shape.images == ("registry:5000/team/init:latest", "train:1", "train:1", "train@sha256:0")
    assert shape_of(PodSpec.model_validate({"containers": [{"name": "a"}]}), {}, Priorities()).images == ()
