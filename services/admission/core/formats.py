"""Kubernetes' text formats: each check returns what is wrong, or nothing.

Sources: k8s.io/apimachinery ``util/validation`` (DNS-1123 names, qualified names, label values, port
names, environment variables).
"""

from __future__ import annotations

import re
from typing import Final

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
PORT_NAME_MAX: Final = 15
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_ENV: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*", re.ASCII)
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_PORT_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", re.ASCII)


def dns_label(text: str) -> str | None:
    """Check a DNS-1123 label: container, volume, task, host names."""
    if len(text) > LABEL_MAX:
        return f"must be at most {LABEL_MAX} characters"
    if not _LABEL.fullmatch(text):
        return "must consist of lower-case letters, digits and '-', and begin and end with a letter or digit"
    return None


def dns_subdomain(text: str) -> str | None:
    """Check a DNS-1123 subdomain: names of most objects."""
    if len(text) > SUBDOMAIN_MAX:
        return f"must be at most {SUBDOMAIN_MAX} characters"
    if not _SUBDOMAIN.fullmatch(text):
        allowed = "lower-case letters, digits, '-' and '.'"
        return f"must consist of {allowed}, and begin and end with a letter or digit"
    return None


def qualified_name(text: str) -> str | None:
    """Check a qualified name: an optional DNS prefix and '/', and a name of at most 63 characters."""
    prefix, slash, name = text.rpartition("/")
    if slash and (not prefix or dns_subdomain(prefix)):
        return "must have a DNS subdomain before the '/'"
    if not name:
        return "must have a name"
    if len(name) > LABEL_MAX:
        return f"must be at most {LABEL_MAX} characters (without a prefix)"
    if not _QUALIFIED.fullmatch(name):
        return "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    return None


def label_value(text: str) -> str | None:
    """Check a label's value: empty, or like the name part of a qualified name."""
    if not text:
        return None
    return "must not contain a '/'" if "/" in text else qualified_name(text)


def env_name(text: str) -> str | None:
    """Check the name of an environment variable."""
    if not _ENV.fullmatch(text):
        return "must consist of letters, digits, '_', '-' and '.', and not start with a digit"
    if text.startswith(".."):
        return "must not start with '..'"
    return 'must not be "."' if text == "." else None


def config_key(text: str) -> str | None:
    """Check a key of a ConfigMap or Secret."""
    if len(text) > SUBDOMAIN_MAX:
        return f"must be at most {SUBDOMAIN_MAX} characters"
    if not _CONFIG_KEY.fullmatch(text):
        return "must consist of letters, digits, '-', '_' and '.'"
    return "must not start with '..'" if text.startswith("..") or text == "." else None


def port_name(text: str) -> str | None:
    """Check the name of a port (RFC 6335): at most 15 characters, at least one letter."""
    if len(text) > PORT_NAME_MAX:
        return f"must be at most {PORT_NAME_MAX} characters"
    if not _PORT_NAME.fullmatch(text) or "--" in text or not any(char.isalpha() for char in text):
        return "must consist of lower-case letters, digits and single '-', with at least one letter"
    return None
