"""`python -m common.web.probe SERVICE`: whether a service is ready; exit code 1 if not.

It requests the address that the settings of this environment give, and imports very little: a
container engine runs it every few seconds.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
from typing import Final

PORTS: Final = {"coordinator": 8200, "aggregator": 8300, "curator": 8400}
TIMEOUT_S: Final = 5.0


def ready(service: str) -> bool:
    """Whether `/readyz` of the service answers 200 on the loopback address."""
    host = os.environ.get("TACIT_HOST") or "127.0.0.1"
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    port = int(os.environ.get("TACIT_PORT") or PORTS[service])
    connection = _connection(host, port)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(host: str, port: int) -> http.client.HTTPConnection:
    certificate = os.environ.get("TACIT_TLS_CERTIFICATE")
    if not certificate:
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    # It calls the service that holds this certificate, on the loopback address: the name in the
    # certificate is another one, and nothing can intercept the connection.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate, os.environ["TACIT_TLS_KEY"])
    return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PORTS:
        sys.exit(f"usage: python -m common.web.probe {'|'.join(PORTS)}")
    sys.exit(0 if ready(sys.argv[1]) else 1)
