"""What each job plugin adds to pods and makes beside them; the values are Volcano's."""

from __future__ import annotations

import base64
import json

import pytest

from services.controller.core.model import read_job
from services.controller.core.plugins import registry
from services.controller.core.plugins.arguments import PluginError
from services.controller.core.pods import make_pod
from services.controller.core.status import Status


def wanted(plugins, *tasks, name="train", **template):
    """Read a job with tasks given as ``("worker", 2)``; ``template`` goes into every pod's spec."""
    spec = {"containers": [{"name": "main", "image": "i"}], **template}
    return read_job(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": "u-1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "plugins": plugins,
                "tasks": [
                    {"name": task, "replicas": count, "template": {"spec": spec}} for task, count in tasks
                ],
            },
        }
    )


def pod(job, task, index=0):
    return make_pod(job, Status(), next(one for one in job.tasks if one.name == task), index)


def env(container):
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container.get("env", ())}


def main(body):
    return body["spec"]["containers"][0]


def objects(job):
    return {one.id: one.body for one in registry.objects(job)}


INIT = {"initContainers": [{"name": "first", "image": "i"}]}


# ------------------------------------------------------------------------------------ env
def test_env_gives_the_index_to_every_container():
    body = pod(wanted({"env": []}, ("worker", 3), **INIT), "worker", 2)
    for container in (*body["spec"]["initContainers"], main(body)):
        assert env(container) == {"VK_TASK_INDEX": "2", "VC_TASK_INDEX": "2"}


def test_env_takes_no_notice_of_arguments():
    assert registry.objects(wanted({"env": ["what", "ever"]}, ("worker", 1))) == []


# ------------------------------------------------------------------------------------ svc
def test_svc_names_the_host_and_mounts_the_hosts_of_all_tasks():
    body = pod(wanted({"svc": []}, ("ps-a", 1), ("worker", 2), **INIT), "worker", 1)
    assert body["spec"]["hostname"] == "train-worker-1"
    assert body["spec"]["subdomain"] == "train"
    assert body["spec"]["volumes"] == [{"name": "train-svc", "configMap": {"name": "train-svc"}}]
    for container in (*body["spec"]["initContainers"], main(body)):
        assert container["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]
        assert env(container) == {
            key: {"configMapKeyRef": {"name": "train-svc", "key": key}}
            for key in ("VC_PS_A_HOSTS", "VC_PS_A_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")
        }


def test_svc_makes_hosts_a_headless_service_and_a_policy():
    found = objects(wanted({"svc": []}, ("ps-a", 1), ("worker", 2)))
    assert found["configmaps", "train-svc"]["data"] == {
        "ps_a.host": "train-ps-a-0.train",
        "VC_PS_A_HOSTS": "train-ps-a-0.train",
        "VC_PS_A_NUM": "1",
        "worker.host": "train-worker-0.train\ntrain-worker-1.train",
        "VC_WORKER_HOSTS": "train-worker-0.train,train-worker-1.train",
        "VC_WORKER_NUM": "2",
    }
    own = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "team"}
    assert found["services", "train"]["spec"] == {"clusterIP": "None", "selector": own}
    assert found["networkpolicies", "train"]["spec"] == {
        "podSelector": {"matchLabels": own},
        "ingress": [{"from": [{"podSelector": {"matchLabels": own}}]}],
        "policyTypes": ["Ingress"],
    }
    for body in found.values():
        owner = body["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "u-1", True)
        assert body["metadata"]["namespace"] == "team"


def test_svcs_arguments_switch_its_parts():
    arguments = [
        "--publish-not-ready-addresses=true",
        "--disable-network-policy",
        "--inject-hosts-env=false",
    ]
    job = wanted({"svc": arguments}, ("worker", 1))
    found = objects(job)
    assert set(found) == {("configmaps", "train-svc"), ("services", "train")}
    assert found["services", "train"]["spec"]["publishNotReadyAddresses"] is True
    assert env(main(pod(job, "worker"))) == {}


def test_a_templates_own_host_name_stands_for_the_whole_task():
    job = wanted({"svc": []}, ("worker", 3), hostname="db", subdomain="data")
    body = pod(job, "worker", 1)
    assert (body["spec"]["hostname"], body["spec"]["subdomain"]) == ("db", "data")
    data = objects(job)["configmaps", "train-svc"]["data"]
    assert (data["worker.host"], data["VC_WORKER_NUM"]) == ("db.data", "1")


@pytest.mark.parametrize("name", ["a" * 60, "v1.2"])
def test_svc_refuses_pods_whose_names_are_no_host_names(name):
    with pytest.raises(PluginError, match="cannot be a host name"):
        registry.check(wanted({"svc": []}, ("worker", 1), name=name))


# ------------------------------------------------------------------------------------ ssh
def text(body, key):
    return base64.b64decode(body["data"][key]).decode()


def test_ssh_mounts_the_secret_where_ssh_looks():
    body = pod(wanted({"ssh": []}, ("worker", 1), **INIT), "worker")
    secret = body["spec"]["volumes"][0]["secret"]
    assert (secret["secretName"], secret["defaultMode"]) == ("train-ssh", 0o600)
    assert {item["key"]: item["path"] for item in secret["items"]} == {
        name: f".ssh/{name}" for name in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    }
    for container in (*body["spec"]["initContainers"], main(body)):
        assert container["volumeMounts"] == [
            {"name": "train-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}
        ]


def test_ssh_elsewhere_is_readable_for_a_user_who_is_not_root():
    body = pod(wanted({"ssh": ["--ssh-key-file-path=/home/u/.ssh"]}, ("worker", 1)), "worker")
    assert body["spec"]["volumes"][0]["secret"]["defaultMode"] == 0o644
    assert main(body)["volumeMounts"][0]["mountPath"] == "/home/u/.ssh"


def test_sshs_secret_has_the_clients_configuration_and_waits_for_keys():
    one = registry.objects(wanted({"ssh": []}, ("worker", 2)))[0]
    assert one.id == ("secrets", "train-ssh")
    assert one.keys
    assert text(one.body, "config").splitlines() == [
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "Host train-worker-0",
        "  HostName train-worker-0.train",
        "  Port 22",
        "Host train-worker-1",
        "  HostName train-worker-1.train",
        "  Port 22",
    ]


def test_ssh_uses_the_keys_that_the_job_brings():
    arguments = ["--ssh-private-key=PRIVATE", "--ssh-public-key=PUBLIC"]
    one = registry.objects(wanted({"ssh": arguments}, ("worker", 1)))[0]
    assert not one.keys
    files = [text(one.body, key) for key in ("id_rsa", "id_rsa.pub", "authorized_keys")]
    assert files == ["PRIVATE", "PUBLIC", "PUBLIC"]


@pytest.mark.parametrize(("argument", "port"), [("--ssh-port=2026", 2026), ("--ssh-port=-10", 22)])
def test_sshs_port_is_in_the_configuration(argument, port):
    one = registry.objects(wanted({"ssh": [argument]}, ("worker", 1)))[0]
    assert f"  Port {port}\n" in text(one.body, "config")


# -------------------------------------------------------------------------------- pytorch
@pytest.mark.parametrize(
    ("arguments", "tasks", "task", "index", "expected"),
    [
        ([], ("master", "worker"), "master", 0, ("train-master-0.train", "23456", "3", "0")),
        ([], ("master", "worker"), "worker", 0, ("train-master-0.train", "23456", "3", "1")),
        (["--port=5000"], ("master", "worker"), "worker", 1, ("train-master-0.train", "5000", "3", "2")),
        (["--master=m", "--worker=w"], ("m", "w"), "w", 1, ("train-m-0.train", "23456", "3", "2")),
    ],
)
def test_pytorch_says_where_the_master_is_and_which_rank_a_pod_has(arguments, tasks, task, index, expected):
    job = wanted({"pytorch": arguments}, (tasks[0], 1), (tasks[1], 2), ("other", 4))
    container = main(pod(job, task, index))
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    assert env(container) == dict(zip(names, expected, strict=True))
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": int(expected[1])}]


def test_pytorch_gives_pods_of_other_tasks_no_rank():
    job = wanted({"pytorch": []}, ("master", 1), ("worker", 2), ("other", 1))
    assert "RANK" not in env(main(pod(job, "other")))


def test_pytorch_leaves_a_job_without_a_master_as_it_is():
    container = main(pod(wanted({"pytorch": []}, ("worker", 2)), "worker"))
    assert container == {"name": "main", "image": "i"}


def test_pytorch_does_not_open_a_port_twice():
    own = {"name": "mine", "containerPort": 23456}
    containers = [{"name": "main", "image": "i", "ports": [own]}]
    job = wanted({"pytorch": []}, ("master", 1), ("worker", 1), containers=containers)
    assert main(pod(job, "worker"))["ports"] == [own]


def test_pytorch_has_workers_wait_for_the_master_when_asked():
    arguments = ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=box"]
    job = wanted({"pytorch": arguments}, ("master", 1), ("worker", 1))
    assert "initContainers" not in pod(job, "master")["spec"]
    waiter = pod(job, "worker")["spec"]["initContainers"][0]
    assert (waiter["name"], waiter["image"], waiter["command"][:2]) == (
        "wait-for-master",
        "box",
        ["sh", "-c"],
    )
    assert "nc -z train-master-0.train 23456" in waiter["command"][2]
    assert "left=60" in waiter["command"][2]


# ----------------------------------------------------------------------------- tensorflow
def test_tensorflow_gives_the_cluster_and_the_place_in_it():
    job = wanted({"tensorflow": ["--port=5000"]}, ("ps", 2), ("worker", 2), ("chief", 1), name="train-123")
    assert env(main(pod(job, "worker", 1)))["TF_CONFIG"] == (
        '{"cluster":{"ps":["train-123-ps-0.train-123:5000","train-123-ps-1.train-123:5000"],'
        '"worker":["train-123-worker-0.train-123:5000","train-123-worker-1.train-123:5000"],'
        '"chief":["train-123-chief-0.train-123:5000"]},"task":{"type":"worker","index":1}}'
    )


def test_tensorflows_roles_have_other_names_when_told():
    job = wanted({"tensorflow": ["--ps=server", "--evaluator=judge"]}, ("server", 1), ("judge", 1))
    config = json.loads(env(main(pod(job, "judge")))["TF_CONFIG"])
    assert config["cluster"] == {
        "ps": ["train-server-0.train:2222"],
        "evaluator": ["train-judge-0.train:2222"],
    }
    assert config["task"] == {"type": "evaluator", "index": 0}


def test_tensorflow_takes_the_templates_own_host_name():
    job = wanted({"tensorflow": []}, ("worker", 2), hostname="db", subdomain="data")
    config = json.loads(env(main(pod(job, "worker")))["TF_CONFIG"])
    assert config["cluster"] == {"worker": ["db.data:2222", "db.data:2222"]}


def test_tensorflow_leaves_a_single_pod_as_it_is():
    assert env(main(pod(wanted({"tensorflow": []}, ("worker", 1)), "worker"))) == {}


# ------------------------------------------------------------------------------------ mpi
def test_mpi_names_the_workers_to_the_master_and_opens_the_port_everywhere():
    job = wanted({"mpi": ["--port=5000"]}, ("master", 1), ("worker", 2), **INIT)
    port = [{"name": "mpijob-port", "containerPort": 5000}]
    master, worker = pod(job, "master"), pod(job, "worker", 1)
    for container in (*master["spec"]["initContainers"], main(master)):
        assert env(container) == {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
        assert container["ports"] == port
    for container in (*worker["spec"]["initContainers"], main(worker)):
        assert env(container) == {}
        assert container["ports"] == port


def test_mpi_without_workers_leaves_the_master_as_it_is():
    assert main(pod(wanted({"mpi": []}, ("master", 1)), "master")) == {"name": "main", "image": "i"}
    none = pod(wanted({"mpi": []}, ("master", 1), ("worker", 0)), "master")
    assert env(main(none)) == {"MPI_HOST": ""}


# ------------------------------------------------------------------------------------ ray
RAY = [{"name": "head", "image": "ray"}, {"name": "worker", "image": "ray"}]


def test_ray_starts_head_and_workers_and_serves_the_head():
    job = wanted({"ray": []}, ("head", 1), ("worker", 2), containers=RAY)
    head, worker = pod(job, "head")["spec"]["containers"], pod(job, "worker")["spec"]["containers"]
    assert head[0]["command"] == [
        "sh",
        "-c",
        (
            "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265"
            " --ray-client-server-port=10001"
        ),
    ]
    assert [(one["name"], one["containerPort"]) for one in head[0]["ports"]] == [
        ("gcs", 6379),
        ("dashboard", 8265),
        ("client-server", 10001),
    ]
    assert worker[1]["command"] == ["sh", "-c", "ray start --block --address=train-head-0.train:6379"]
    assert head[1] == RAY[1]
    assert worker[0] == RAY[0]
    service = objects(job)["services", "train-head-svc"]["spec"]
    assert service["selector"] == {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "team",
        "volcano.sh/task-spec": "head",
    }
    assert [(one["name"], one["port"], one["targetPort"]) for one in service["ports"]] == [
        ("gcs", 6379, "gcs"),
        ("dashboard", 8265, "dashboard"),
        ("client-server", 10001, "client-server"),
    ]


def test_rays_names_and_ports_can_be_others():
    arguments = ["--head=boss", "--headContainer=main", "--port=1", "--dashboardPort=2", "--clientPort=3"]
    job = wanted({"ray": arguments}, ("boss", 1))
    container = main(pod(job, "boss"))
    assert "--port=1 --dashboard-port=2 --ray-client-server-port=3" in container["command"][2]


def test_ray_needs_its_head_task():
    with pytest.raises(PluginError, match="no task head"):
        registry.check(wanted({"ray": []}, ("worker", 1)))


# ------------------------------------------------------------------------------- hcclrank
@pytest.mark.parametrize(
    ("task", "index", "rank"),
    [("master", 1, "1"), ("worker", 0, "2"), ("worker", 1, "3"), ("other", 0, None)],
)
def test_hcclrank_counts_over_masters_and_workers(task, index, rank):
    job = wanted({"hcclrank": []}, ("master", 2), ("worker", 2), ("other", 1))
    assert pod(job, task, index)["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_hcclrank_takes_the_rank_that_pytorch_gives_whatever_the_order():
    job = wanted({"hcclrank": [], "pytorch": []}, ("master", 2), ("worker", 2))
    assert pod(job, "worker", 1)["metadata"]["annotations"]["hccl/rankIndex"] == "2"


def test_hcclrank_keeps_what_the_template_says():
    job = wanted({"hcclrank": []}, ("worker", 1))
    raw = job.raw
    raw["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {"hccl/rankIndex": "7"}}
    assert pod(read_job(raw), "worker")["metadata"]["annotations"]["hccl/rankIndex"] == "7"


# ------------------------------------------------------------------------------ in general
def test_a_plugin_that_does_not_exist_is_named():
    with pytest.raises(PluginError, match=r"spec.plugins\[sv\]: there is no such plugin"):
        registry.check(wanted({"sv": []}, ("worker", 1)))


def test_plugins_leave_the_template_as_it_is_for_the_next_pod():
    job = wanted({"svc": [], "ssh": [], "env": [], "pytorch": []}, ("master", 1), ("worker", 2))
    assert pod(job, "worker", 1) == pod(job, "worker", 1)


def test_the_same_job_makes_the_same_objects():
    job = wanted({"svc": [], "ssh": []}, ("worker", 2))
    assert [one.digest for one in registry.objects(job)] == [one.digest for one in registry.objects(job)]
    more = wanted({"svc": [], "ssh": []}, ("worker", 3))
    changed = {
        one.id
        for one, other in zip(registry.objects(job), registry.objects(more), strict=True)
        if one.digest != other.digest
    }
    assert changed == {("configmaps", "train-svc"), ("secrets", "train-ssh")}
