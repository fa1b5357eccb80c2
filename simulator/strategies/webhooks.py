"""The configurations of admission webhooks."""

from __future__ import annotations

from typing import Any, Final

from simulator.core.errors import Cause, invalid, required, unsupported
from simulator.core.kinds import Strategy

JSON = dict[str, Any]


def _default_webhooks(*, mutating: bool) -> Any:
    def default(obj: JSON) -> None:
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            if service := hook.get("clientConfig", {}).get("service"):
                service.setdefault("port", 443)

    return default


def _validate_webhooks(obj: JSON) -> list[Cause]:
    causes: list[Cause] = []
    for at, hook in enumerate(obj.get("webhooks") or ()):
        field = f"webhooks[{at}]"
        if len(hook.get("name", "").split(".")) < 3:  # noqa: PLR2004
            causes.append(
                invalid(
                    f"{field}.name",
                    hook.get("name", ""),
                    "should be a domain with at least three segments separated by dots",
                )
            )
        if not hook.get("admissionReviewVersions"):
            causes.append(required(f"{field}.admissionReviewVersions", "must specify one of v1, v1beta1"))
        if hook.get("sideEffects") not in ("None", "NoneOnDryRun"):
            causes.append(
                required(f"{field}.sideEffects", "must specify one of None, NoneOnDryRun")
                if not hook.get("sideEffects")
                else unsupported(f"{field}.sideEffects", hook["sideEffects"], ("None", "NoneOnDryRun"))
            )
        config = hook.get("clientConfig") or {}
        if ("url" in config) == ("service" in config):
            causes.append(required(f"{field}.clientConfig", "exactly one of url or service is required"))
        elif "url" in config and not config["url"].startswith("https://"):
            causes.append(
                invalid(
                    f"{field}.clientConfig.url",
                    config["url"].split(":")[0],
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                )
            )
    return causes


def _webhooks(*, mutating: bool) -> Strategy:
    return Strategy(
        default=_default_webhooks(mutating=mutating),
        prepare_create=lambda obj: obj["metadata"].update(generation=1),
        validate=_validate_webhooks,
        validate_update=lambda new, _old: _validate_webhooks(new),
        generation=True,
    )


MUTATING: Final = _webhooks(mutating=True)


VALIDATING: Final = _webhooks(mutating=False)
