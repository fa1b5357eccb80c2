"""Admission webhooks: which ones a request meets, what they are asked, and what their answers mean."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import orjson

from simulator.core import merge, selectors
from simulator.core.errors import StatusError
from simulator.core.kinds import Kind
from simulator.core.world import Call, HookAnswer, HookCall, Steps, World

JSON = dict[str, Any]

_MUTATING: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
_VALIDATING: Final = "validatingwebhookconfigurations.admissionregistration.k8s.io"
_EXEMPT: Final = "admissionregistration.k8s.io"


def mutate(
    world: World, kind: Kind, operation: str, obj: JSON, old: JSON | None, call: Call, subresource: str = ""
) -> Steps[JSON]:
    """Call the mutating webhooks one after the other; return the object as they leave it."""
    if not world.store.collection(_MUTATING).count:
        return obj
    for hook in list(_matching(world, _MUTATING, kind, operation, obj, old, subresource)):
        review = _review(kind, operation, obj, old, call, subresource)
        response = _response(hook, (yield _request(hook, review)), call)
        if response.get("patch"):
            obj = _patched(kind, obj, response)
    return obj


def validate(
    world: World,
    kind: Kind,
    operation: str,
    obj: JSON | None,
    old: JSON | None,
    call: Call,
    subresource: str = "",
) -> Steps[None]:
    """Call the validating webhooks. Raises StatusError when one refuses."""
    if not world.store.collection(_VALIDATING).count:
        return
    for hook in list(_matching(world, _VALIDATING, kind, operation, obj, old, subresource)):
        review = _review(kind, operation, obj, old, call, subresource)
        _response(hook, (yield _request(hook, review)), call)


def _request(hook: JSON, review: JSON) -> HookCall:
    return HookCall(hook["clientConfig"], review, float(hook.get("timeoutSeconds", 10)))


def _matching(
    world: World,
    resource: str,
    kind: Kind,
    operation: str,
    obj: JSON | None,
    old: JSON | None,
    subresource: str,
) -> Iterator[JSON]:
    if kind.group == _EXEMPT:
        return
    for configuration in sorted(world.every(resource), key=lambda c: c["metadata"]["name"]):
        for hook in configuration.get("webhooks") or ():
            rules = hook.get("rules") or ()
            if any(_rule(rule, kind, operation, subresource) for rule in rules) and _selected(
                world, hook, kind, obj, old
            ):
                yield hook


def _rule(rule: JSON, kind: Kind, operation: str, subresource: str) -> bool:
    def has(words: list[str], word: str) -> bool:
        return "*" in words or word in words

    if not has(rule.get("operations", []), operation):
        return False
    if not has(rule.get("apiGroups", []), kind.group) or not has(rule.get("apiVersions", []), kind.version):
        return False
    scope = rule.get("scope", "*")
    if scope != "*" and (scope == "Namespaced") != kind.namespaced:
        return False
    for wanted in rule.get("resources", []):
        plural, _, sub = wanted.partition("/")
        if plural in ("*", kind.plural) and (sub in ("*", subresource) or (wanted == "*/*")):
            return True
    return False


def _selected(world: World, hook: JSON, kind: Kind, obj: JSON | None, old: JSON | None) -> bool:
    subject = obj or old or {}
    meta = subject.get("metadata") or {}
    if namespace_selector := hook.get("namespaceSelector"):
        labels = meta.get("labels")
        if kind.namespaced:
            namespace = world.find("namespaces", "", meta.get("namespace", "")) or {"metadata": {}}
            labels = namespace["metadata"].get("labels")
        if (kind.namespaced or kind.plural == "namespaces") and not selectors.from_object(
            namespace_selector
        ).holds(labels):
            return False
    if object_selector := hook.get("objectSelector"):
        chosen = selectors.from_object(object_selector)
        return any(chosen.holds(one["metadata"].get("labels")) for one in (obj, old) if one)
    return True


def _review(
    kind: Kind, operation: str, obj: JSON | None, old: JSON | None, call: Call, subresource: str
) -> JSON:
    subject = (obj or old or {}).get("metadata") or {}
    names = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    request: JSON = {
        "uid": call.ids(),
        "kind": names,
        "resource": resource,
        "requestKind": names,
        "requestResource": resource,
        "name": subject.get("name", ""),
        "operation": operation,
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": obj,
        "oldObject": old,
        "dryRun": call.dry_run,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if subresource:
        request["subResource"] = request["requestSubResource"] = subresource
    if kind.namespaced:
        request["namespace"] = subject.get("namespace", "")
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _response(hook: JSON, answer: HookAnswer, call: Call) -> JSON:
    """Return the response of a webhook that allows. Raises StatusError when it refuses or cannot be asked."""
    name = hook.get("name", "")
    response = (answer.review or {}).get("response")
    if not isinstance(response, dict):
        why = answer.error or "expected response, got none"
        if hook.get("failurePolicy", "Fail") == "Ignore":
            return {}
        raise StatusError(
            500,
            "InternalError",
            f'Internal error occurred: failed calling webhook "{name}": {why}',
            {"causes": [{"message": f'failed calling webhook "{name}": {why}'}]},
        )
    call.warnings += [str(warning) for warning in response.get("warnings") or ()]
    if response.get("allowed"):
        return response
    status = response.get("status") or {}
    message, reason = status.get("message", ""), status.get("reason", "")
    words = f'admission webhook "{name}" denied the request'
    words += f": {message}" if message else f": {reason}" if reason else " without explanation"
    code = int(status.get("code") or 0)
    raise StatusError(
        code if code >= HTTPStatus.BAD_REQUEST else 403,
        reason or ("Forbidden" if not code else ""),
        words,
        status.get("details"),
    )


def _patched(kind: Kind, obj: JSON, response: JSON) -> JSON:
    try:
        operations = orjson.loads(base64.b64decode(response["patch"], validate=True))
        changed = merge.json_patch(obj, operations)
    except (ValueError, binascii.Error, StatusError) as error:
        raise StatusError(
            500, "InternalError", f"Internal error occurred: {error}", {"causes": [{"message": str(error)}]}
        ) from error
    decoded, _ = kind.decode(changed)
    kind.strategy.default(decoded)
    return decoded
