"""Say why a request to a server failed, and what to do: the same words for all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from decouple.base.errors import DecoupleError

_BAD_CERTIFICATE = re.compile(r"certificate verify failed: ([^(]+?) ?(?:\(|$)")
#: Of SSLError, while the bundle is read: it holds no PEM, or may not be opened.
_BAD_BUNDLE = re.compile(r"\[X509\b|SSLError\(PermissionError")
_REFUSED_TUNNEL = re.compile(r"Tunnel connection failed: ([\w ]{,60})", re.ASCII)
_MEANINGS = (
    ("Name or service not known", "host name not known"),
    ("Temporary failure in name resolution", "host name cannot be looked up"),
    ("No address associated", "host name not known"),
    ("Connection refused", "connection refused"),
    ("Network is unreachable", "network unreachable"),
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS"),
    ("timed out", "timed out"),
    ("IncompleteRead", "the connection ended early"),
    ("Connection broken", "the connection ended early"),
    ("RemoteDisconnected", "the server closed the connection"),
    ("Connection reset", "the server closed the connection"),
)
"""What stands in an error's text -> what it means."""
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class RequestError(DecoupleError):
    """What was asked of servers did not come.

    The next step is to mend the ``setting`` of the user's machine where that is why, else ``next_step``. ``also``
    follows both.
    """

    def __init__(self, what: str, setting: str | None, *, next_step: str, also: str = "") -> None:
        super().__init__(what, next_step=f"{setting or next_step}{also}")
        self.setting = setting


def find_setting(errors: Iterable[DecoupleError]) -> str | None:
    """Return the first setting to mend that one of the failures has."""
    return next((error.setting for error in errors if isinstance(error, RequestError) and error.setting), None)


def describe_error(error: Exception) -> str:
    """Return why a request failed, in a few words.

    ``error`` is one of requests, of urllib3 or of the system.
    """
    import requests

    text = str(error)
    if bad := _BAD_CERTIFICATE.search(text):
        return f"certificate not trusted ({bad[1]})"
    if _BAD_BUNDLE.search(text):
        return f"no certificate in PEM can be read from {_name_bundle()}"
    if refused := _REFUSED_TUNNEL.search(text):
        return f"the proxy refused the connection ({refused[1].strip()})"
    if isinstance(error, requests.exceptions.ProxyError):
        return "the proxy does not answer"
    for mark, meaning in _MEANINGS:
        if mark in text:
            return meaning
    return f"{type(error).__name__}: {text[:400]}"


def suggest_next_step(error: Exception) -> str:
    """Return what to do about an address that cannot be read."""
    import requests

    if setting := suggest_setting(error):
        return setting
    if isinstance(error, ValueError):  # requests' own for addresses
        return "check the address"
    if isinstance(error, requests.ConnectionError):
        return "check the address and the network"
    return "try again, or a mirror"


def suggest_setting(error: Exception) -> str | None:
    """Return which setting of the user's to mend, if one made the request fail."""
    import requests

    text = str(error)
    if _BAD_CERTIFICATE.search(text):
        return "set REQUESTS_CA_BUNDLE to your proxy's certificate, or tell who runs the server"
    if "CA certificate bundle" in text:  # requests' OSError has no number
        return "set REQUESTS_CA_BUNDLE (or CURL_CA_BUNDLE) to a file that is there, or unset it"
    if _BAD_BUNDLE.search(text):
        return "set REQUESTS_CA_BUNDLE (or CURL_CA_BUNDLE) to a file of certificates in PEM, or unset it"
    if "SOCKS support" in text:
        return f"name a proxy that speaks http in {_name_proxies()}, or install PySocks"
    if isinstance(error, requests.exceptions.ProxyError) or _is_of_proxy_address(error):
        return f"check {_name_proxies()}, or except the host by NO_PROXY"
    return None


def _is_of_proxy_address(error: Exception) -> bool:
    """Return whether a proxy's address is none, as opposed to that of a server."""
    from urllib.request import getproxies

    import requests

    if isinstance(error, requests.exceptions.InvalidProxyURL):
        return True
    # requests has the same kind for both: its text names the host
    hosts = (address.rpartition("//")[2].rpartition("@")[2].rstrip("/") for address in getproxies().values())
    text = str(error)
    return isinstance(error, ValueError) and ("Proxy URL" in text or any(f"'{host}'" in text for host in hosts))


def _name_bundle() -> str:
    """Return the file that requests takes certificates from."""
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or str(DEFAULT_CA_BUNDLE_PATH)


def _name_proxies() -> str:
    """Return the variables that name a proxy here, as they are spelt here."""
    spelt = (word for name in _PROXY_VARIABLES for word in (name, name.lower()))
    return " and ".join(word for word in spelt if os.environ.get(word)) or "this system's proxy"
