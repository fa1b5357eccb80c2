"""The chart's templates that follow from code: what each service may do, and the webhooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from services.installer.core import rbac
from shared.api.names import ADMISSION_SECRET, ADMISSION_SERVICE
from shared.api.webhooks import CONFIGURATION, ByService, webhook_configurations

TEMPLATES: Final = Path(__file__).parents[1] / "deploy" / "helm" / "pumice" / "templates"
_MADE: Final = "{{- /* Made by `make generate`; edit the code instead. */ -}}\n"
_NAMESPACE: Final = "{{ .Release.Namespace }}"
_LABELS: Final = "pumice-labels"
"""A label's key in whose place the chart's own labels are put."""


def files() -> dict[Path, str]:
    """Return the generated templates by their path."""
    return {TEMPLATES / "rbac.yaml": _rbac(), TEMPLATES / "webhooks.yaml": _webhooks()}


def _rbac() -> str:
    parts: list[str] = []
    for account in rbac.accounts(webhook_configuration=CONFIGURATION, webhook_secret=ADMISSION_SECRET):
        made = rbac.manifests(account, _NAMESPACE, {_LABELS: account.service})
        parts += [_template(one, account.service) for one in made]
    parts += [_template(one, "users") for one in rbac.user_roles({_LABELS: "users"})]
    return _MADE + "".join(f"---\n{part}" for part in parts)


def _webhooks() -> str:
    made = webhook_configurations(
        ByService(_NAMESPACE, ADMISSION_SERVICE),
        exempt_namespaces=("kube-system", _NAMESPACE),
        trusted_users=(rbac.user_of("controller", _NAMESPACE),),
        labels={_LABELS: "admission"},
    )
    inject = (
        "  {{- if .Values.webhooks.certManager.enabled }}\n"
        "  annotations:\n"
        f"    cert-manager.io/inject-ca-from: {_NAMESPACE}/pumice-admission\n"
        "  {{- end }}\n"
    )
    parts = [_template(one, "admission").replace("  labels:\n", f"{inject}  labels:\n", 1) for one in made]
    body = "".join(f"---\n{part}" for part in parts)
    return f"{_MADE}{{{{- if .Values.webhooks.enabled }}}}\n{body}{{{{- end }}}}\n"


def _template(manifest: dict[str, Any], service: str) -> str:
    """Return a manifest as YAML with the chart's labels."""
    text: str = yaml.safe_dump(manifest, sort_keys=False, width=1_000_000)
    about = f'(dict "root" . "service" "{service}")'
    labels = f'    {{{{- include "pumice.labels" {about} | nindent 4 }}}}'
    return re.sub(rf"^    {_LABELS}: \S+$", lambda _: labels, text, flags=re.MULTILINE)
