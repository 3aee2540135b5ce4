"""A guard against connections to other machines, for the process that installs it.

Python raises events for connections and look-ups of addresses, whoever makes them; hooks cannot be
removed again. Commands that install packages (`-m slow`, `-m workflow`) are processes of their own.
"""

import ipaddress
import socket
import sys
from functools import cache

EVENTS = {"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"}


class NetworkUseError(RuntimeError):
    """A test used the network."""


def is_local(address):
    """Tell whether an address is of this machine; names other than localhost are not."""
    if not isinstance(address, tuple):
        # A Unix socket, or no address.
        return True
    host = address[0]
    if isinstance(host, bytes):
        host = host.decode("idna")
    if host in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check(event, arguments):
    """Raise if a connection leaves the machine."""
    if event not in EVENTS:
        return
    if event == "socket.connect" and arguments[0].type == socket.SOCK_DGRAM:
        # Sends nothing; dask asks the system for this machine's address in this way.
        return
    address = arguments[:2] if event == "socket.getaddrinfo" else arguments[1]
    if not is_local(address):
        raise NetworkUseError(f"expected tests to use no network, received {event} {address!r}")


@cache
def forbid_network():
    """Install the guard, once."""
    sys.addaudithook(check)
