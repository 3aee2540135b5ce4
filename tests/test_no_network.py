"""The guard against connections to other machines, in tests and the commands that they run."""

import socket

import pytest
from commandline import run_module
from no_network import NetworkUseError, is_local

# Addresses that nobody has, for documentation (RFC 5737, RFC 3849).
OTHERS = [("192.0.2.1", 9), ("2001:db8::1", 9, 0, 0)]


@pytest.mark.parametrize("address", OTHERS, ids=["IPv4", "IPv6"])
def test_connections_to_other_machines_raise(address):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as stream, pytest.raises(NetworkUseError, match=address[0]):
        stream.connect(address)
    with socket.socket(family, socket.SOCK_DGRAM) as stream, pytest.raises(NetworkUseError):
        stream.sendto(b"", address)


def test_addresses_of_this_machine_are_local():
    for address in ("/a/socket", ("127.0.0.1", 9), ("localhost", 80), ("::1", 80, 0, 0)):
        assert is_local(address)
    assert not is_local(("localhost.example", 80))


def test_commands_that_tests_run_have_the_guard(tmp_path):
    """They are forked from a process that has it."""
    (tmp_path / "connects.py").write_text(
        "import socket\nsocket.socket().connect(('192.0.2.1', 9))\n", encoding="utf8"
    )
    result = run_module("connects", cwd=tmp_path)
    assert result.returncode != 0
    assert b"NetworkUseError" in result.stderr
