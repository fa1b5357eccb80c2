"""What is installed so that the API server asks admission, and only about what is ours."""

from __future__ import annotations

import base64

import pytest
import yaml

from shared.api.webhooks import (
    DEFAULT_PATHS,
    HOOKS,
    PATHS,
    ByService,
    ByUrl,
    main,
    webhook_configurations,
)

SERVICE = ByService("pumice-system", "pumice-admission")


def hooks(**options):
    """Return the webhooks of both configurations by their path."""
    made = webhook_configurations(SERVICE, **options)
    return {hook["clientConfig"]["service"]["path"]: hook for one in made for hook in one["webhooks"]}


def test_the_paths_are_volcanos_and_those_on_by_default_are_configured():
    assert {*PATHS} == {
        "/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/podgroups/validate", "/pods/mutate",
        "/pods/validate", "/queues/mutate", "/queues/validate", "/hypernodes/validate", "/jobflows/validate",
        "/cronjobs/validate",
    }  # fmt: skip
    assert {*hooks()} == {*DEFAULT_PATHS} == {*PATHS} - {"/podgroups/validate"}
    assert {*hooks(paths=("/jobs/validate",))} == {"/jobs/validate"}


def test_there_is_one_configuration_of_each_kind():
    mutating, validating = webhook_configurations(SERVICE, paths=PATHS, labels={"app": "pumice"})
    assert (mutating["kind"], validating["kind"]) == (
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    assert mutating["metadata"] == validating["metadata"] == {"name": "pumice", "labels": {"app": "pumice"}}
    assert all("/mutate" in hook["clientConfig"]["service"]["path"] for hook in mutating["webhooks"])
    assert all("/validate" in hook["clientConfig"]["service"]["path"] for hook in validating["webhooks"])


@pytest.mark.parametrize("hook", HOOKS, ids=PATHS)
def test_each_webhook_is_as_the_api_server_wants_it(hook):
    one = hooks(paths=PATHS, timeout=7)[hook.path]
    [rule] = one["rules"]
    assert len(one["name"].split(".")) >= 3
    assert rule["operations"] == list(hook.operations)
    assert (rule["apiGroups"], rule["apiVersions"], rule["resources"]) == (
        [hook.resource.group], [hook.resource.version], [hook.resource.plural],
    )  # fmt: skip
    assert (one["sideEffects"], one["timeoutSeconds"], one["admissionReviewVersions"]) == ("None", 7, ["v1"])


def test_nothing_of_exempt_namespaces_is_asked_about():
    for one in hooks(paths=PATHS, exempt_namespaces=("kube-system", "pumice-system")).values():
        if one["rules"][0]["scope"] == "Namespaced":
            [expression] = one["namespaceSelector"]["matchExpressions"]
            assert expression["operator"] == "NotIn"
            assert expression["values"] == ["kube-system", "pumice-system"]


def test_pods_are_asked_about_only_when_they_say_that_they_are_ours():
    found = hooks(schedulers=("volcano", "it's"), pod_annotations=("team",), pod_namespaces=("gpu",))
    scheduler, budget = (one["expression"] for one in found["/pods/validate"]["matchConditions"])
    assert scheduler == "object.spec.schedulerName in ['volcano', 'it\\'s']"
    assert "'volcano.sh/jdb-min-available' in object.metadata.annotations" in budget
    assert found["/pods/validate"]["failurePolicy"] == "Ignore"
    change = found["/pods/mutate"]["matchConditions"][0]["expression"]
    for word in (
        "volcano.sh/resource-group",
        "'team' in object.metadata.annotations",
        "request.namespace in ['gpu']",
    ):
        assert word in change


def test_our_own_kinds_fail_closed():
    found = hooks(paths=PATHS)
    assert {path for path, one in found.items() if one["failurePolicy"] == "Ignore"} == {"/pods/validate"}


def test_a_server_outside_the_cluster_is_called_by_url():
    made = webhook_configurations(ByUrl("https://10.0.0.1:8443/"), ca_bundle=b"PEM")
    client = made[0]["webhooks"][0]["clientConfig"]
    assert client == {
        "url": "https://10.0.0.1:8443/jobs/mutate",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }


def test_wrong_paths_and_timeouts_are_refused():
    with pytest.raises(ValueError, match="/nodes/validate"):
        webhook_configurations(SERVICE, paths=("/nodes/validate",))
    with pytest.raises(ValueError, match="31"):
        webhook_configurations(SERVICE, timeout=31)


def test_jobs_of_those_who_were_judged_before_are_not_judged_again():
    account = "system:serviceaccount:pumice-system:pumice-controller"
    found = hooks(paths=PATHS, trusted_users=(account,))
    for path in PATHS:
        expressions = [one["expression"] for one in found[path].get("matchConditions", ())]
        assert (f"!(request.userInfo.username in ['{account}'])" in expressions) is path.startswith("/jobs/")


def test_they_are_printed_as_yaml(capsys):
    main(["--service", "pumice/admission"])
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    server = ByService("pumice", "admission")
    assert printed == webhook_configurations(server, exempt_namespaces=("kube-system", "pumice"))
    main(["--url", "https://127.0.0.1:9443", "--path", "/jobs/validate"])
    [none, one] = yaml.safe_load_all(capsys.readouterr().out)
    assert none["webhooks"] == []
    assert one["webhooks"][0]["clientConfig"]["url"] == "https://127.0.0.1:9443/jobs/validate"
