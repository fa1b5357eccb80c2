"""An exposed job is reached by URL from when its pods can be until it ends."""

from __future__ import annotations

import json

import pytest

from services.controller.core.belongings import belongings
from services.controller.core.exposing import Outside, check_pattern, expose_objects, urls
from services.controller.core.model import read_job
from shared.api import resources as r
from shared.errors import ConfigurationError
from tests.unit.controller.conftest import job

HOST = "https://{name}-{job}-{namespace}.apps.example.org"
PATH = "http://apps.example.org/{namespace}/{job}/{name}"


def exposed(text, **spec):
    body = job("note", **spec)
    body["metadata"] |= {"annotations": {"pumice.dev/expose": text}, "uid": "u-1"}
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return body


def objects(body, outside):
    return {one.id: one.body for one in expose_objects(read_job(body), outside)}


def test_each_port_has_a_service_of_its_pod():
    found = objects(exposed("jupyter:8888,tb:6006@worker/2"), Outside())
    assert set(found) == {("services", "note-jupyter"), ("services", "note-tb")}
    spec = found["services", "note-tb"]["spec"]
    assert spec["ports"] == [{"name": "tb", "port": 6006, "targetPort": 6006, "protocol": "TCP"}]
    assert spec["selector"] == {
        "volcano.sh/job-name": "note",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "2",
    }


def test_without_a_pattern_the_urls_are_the_clusters_own():
    found = urls(read_job(exposed("jupyter:8888")), Outside())
    assert found == {"jupyter": "http://note-jupyter.default.svc:8888"}


def test_with_hosts_each_port_has_a_rule_and_https_asks_for_tls():
    outside = Outside(HOST, "nginx", "wildcard", {"who": "may"})
    body = objects(exposed("jupyter:8888,tb:6006"), outside)["ingresses", "note-expose"]
    spec = body["spec"]
    hosts = ["jupyter-note-default.apps.example.org", "tb-note-default.apps.example.org"]
    assert [rule["host"] for rule in spec["rules"]] == hosts
    backends = [rule["http"]["paths"][0]["backend"]["service"] for rule in spec["rules"]]
    assert backends == [
        {"name": "note-jupyter", "port": {"number": 8888}},
        {"name": "note-tb", "port": {"number": 6006}},
    ]
    assert spec["ingressClassName"] == "nginx"
    assert spec["tls"] == [{"hosts": hosts, "secretName": "wildcard"}]
    assert body["metadata"]["annotations"]["who"] == "may"


def test_with_paths_one_host_has_them_all():
    spec = objects(exposed("a:1,b:2"), Outside(PATH))["ingresses", "note-expose"]["spec"]
    assert [rule["host"] for rule in spec["rules"]] == ["apps.example.org"]
    paths = [one["path"] for one in spec["rules"][0]["http"]["paths"]]
    assert paths == ["/default/note/a", "/default/note/b"]
    assert "tls" not in spec
    assert "ingressClassName" not in spec


@pytest.mark.parametrize(("arguments", "open_to_all"), [([], True), (["--disable-network-policy"], False)])
def test_the_network_policy_of_svc_gets_a_hole_for_the_port(arguments, open_to_all):
    found = objects(exposed("jupyter:8888", plugins={"svc": arguments}), Outside())
    assert (("networkpolicies", "note-jupyter") in found) is open_to_all
    if open_to_all:
        spec = found["networkpolicies", "note-jupyter"]["spec"]
        assert spec["ingress"] == [{"ports": [{"port": 8888, "protocol": "TCP"}]}]
        assert spec["podSelector"]["matchLabels"]["volcano.sh/task-index"] == "0"


def test_a_port_does_not_take_the_name_of_a_plugins_service():
    body = exposed("head-svc:8265", plugins={"ray": ["--head=master"]})
    found = belongings(read_job(body), None, Outside())
    assert found.exposed == ()
    assert found.exposing_fails == "note-head-svc is another service of the job"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("https://{job}.example.org", "needs {namespace}, {name}"),
        ("https://{name}-{job}-{namespace}-{user}.x", "only {namespace}, {job}, {name}"),
        ("ftp://{name}-{job}-{namespace}", "not http"),
        ("{name}-{job}-{namespace}.example.org", "not http"),
    ],
)
def test_a_pattern_that_makes_no_urls_ends_the_start(pattern, says):
    with pytest.raises(ConfigurationError, match=says.replace("(", r"\(")):
        check_pattern(pattern)
    check_pattern("")
    check_pattern(HOST)
    check_pattern(PATH)


# ------------------------------------------------------------------------- the whole life
def found_urls(w):
    annotations = w.job("note").get("metadata", {}).get("annotations", {})
    return json.loads(annotations.get("pumice.dev/urls", "{}"))


def names(w, resource):
    return {one["metadata"]["name"] for one in w.cluster.all(resource)}


def warnings(w):
    return [(e["reason"], e["message"]) for e in w.cluster.all(r.EVENTS) if e["type"] == "Warning"]


def new(text, **spec):
    body = exposed(text, **spec)
    body["metadata"].pop("uid")
    return body


async def runs(w):
    await w.decide()
    await w.results()
    w.cluster.run_pods()
    await w.until(lambda: w.phase("note") == "Running")


@pytest.mark.looptime
async def test_a_notebook_has_service_ingress_and_url_until_it_ends(world):
    async with world(expose_url=HOST, expose_ingress_class="nginx") as w:
        w.cluster.put(r.INGRESSCLASSES, {"metadata": {"name": "nginx"}})
        await w.admit(new("jupyter:8888"))
        await runs(w)
        await w.until(lambda: found_urls(w))
        assert found_urls(w) == {"jupyter": "https://jupyter-note-default.apps.example.org"}
        assert (names(w, r.SERVICES), names(w, r.INGRESSES)) == ({"note-jupyter"}, {"note-expose"})
        facts = await w.state()
        assert facts["job/default/note"].urls == found_urls(w)
        w.cluster.end_pods()
        await w.until(lambda: w.phase("note") == "Completed")
        await w.until(lambda: not names(w, r.SERVICES) | names(w, r.INGRESSES) and not found_urls(w))
        assert warnings(w) == []


@pytest.mark.looptime
async def test_a_port_may_be_exposed_and_closed_while_the_job_runs(world):
    async with world() as w:
        await w.admit(new(""))
        await runs(w)
        w.cluster.change(
            r.JOBS, "default", "note", {"metadata": {"annotations": {"pumice.dev/expose": "tb:6006@worker"}}}
        )
        await w.until(lambda: found_urls(w) == {"tb": "http://note-tb.default.svc:6006"})
        w.cluster.change(
            r.JOBS, "default", "note", {"metadata": {"annotations": {"pumice.dev/expose": None}}}
        )
        await w.until(lambda: not found_urls(w) and not names(w, r.SERVICES))


@pytest.mark.looptime
async def test_a_class_that_is_missing_is_said_and_stops_nothing(world):
    async with world(expose_url=HOST, expose_ingress_class="none") as w:
        await w.admit(new("jupyter:8888"))
        await runs(w)
        await w.until(lambda: warnings(w))
        text = "there is no ingress class none: the URLs work when somebody makes it"
        assert warnings(w) == [("ExposeError", text)]
        assert names(w, r.INGRESSES) == {"note-expose"}


@pytest.mark.looptime
@pytest.mark.parametrize("text", ["what?", "jupyter:8888@boss"])
async def test_an_annotation_that_cannot_be_read_is_said_and_stops_nothing(world, text):
    async with world() as w:
        await w.admit(new(text))
        await runs(w)
        await w.until(lambda: warnings(w))
        assert [reason for reason, _ in warnings(w)] == ["ExposeError"]
        assert warnings(w)[0][1].startswith("metadata.annotations[pumice.dev/expose]: ")
        assert names(w, r.SERVICES) == set()


@pytest.mark.looptime
async def test_a_name_that_is_taken_is_said_and_stops_nothing(world):
    async with world() as w:
        w.cluster.put(r.SERVICES, {"metadata": {"name": "note-jupyter"}, "spec": {}}, "default")
        await w.admit(new("jupyter:8888"))
        await runs(w)
        await w.until(lambda: warnings(w))
        text = "Service default/note-jupyter is there already and is not this job's"
        assert warnings(w) == [("ExposeError", text)]
        assert found_urls(w) == {}


@pytest.mark.looptime
async def test_a_url_that_another_job_has_is_not_taken_away(world):
    async with world(expose_url=HOST) as w:
        await w.admit(new("a-x:1"))
        await w.until(lambda: found_urls(w) == {"a-x": "https://a-x-note-default.apps.example.org"})
        other = new("a:1")
        other["metadata"]["name"] = "x-note"
        w.cluster.put(r.JOBS, other)
        await w.until(lambda: warnings(w))
        text = "https://a-x-note-default.apps.example.org is taken by ingress default/note-expose"
        assert warnings(w) == [("ExposeError", f"Ingress x-note-expose: {text}")]
        assert names(w, r.INGRESSES) == {"note-expose"}
        assert names(w, r.SERVICES) == {"note-a-x", "x-note-a"}
