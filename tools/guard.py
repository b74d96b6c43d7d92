"""The guard of outgoing requests: names are resolved once, every address is checked, and the checked one is used."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

import httpx

from app.errors import BadInput

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""Host and port to the addresses of the host, best first. Raises OSError when there are none."""

CONNECT_TRIES = 3

# Global by the tables of `ipaddress` (also those of older Pythons), and yet not the public internet.
_REFUSED = tuple(
    ip_network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments; one cloud keeps its metadata service here
        "192.88.99.0/24",  # 6to4 relays
        "168.63.129.16/32",  # a cloud's host agent, with metadata, at a public-looking address
        "64:ff9b:1::/48",  # NAT64 of a local network
        "2001::/23",  # Teredo and other protocols; Teredo carries an IPv4 address
        "2001:db8::/32",
        "3fff::/20",
        "5f00::/16",
        "fec0::/10",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Whether `address` belongs to the public internet; one that carries an IPv4 address is judged by that one."""
    if isinstance(address, IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if carried is None and address in _NAT64:
            carried = IPv4Address(int(address) & 0xFFFF_FFFF)
        if carried is not None:
            return is_public(carried)
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address.version == network.version and address in network for network in _REFUSED)


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of `host` by the system's resolver, in its order, asked off the event loop."""
    answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends each request to an address that was checked for this very request, with the name kept for Host and TLS.

    Checking a name and letting the client look it up again would let a second answer lead elsewhere (DNS rebinding).
    Raises BadInput for a host that has any address not permitted: nothing is connected to then.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        resolver: Resolver = resolve,
        permits: Callable[[Address], bool] = is_public,
    ) -> None:
        self._inner = inner
        self._resolver = resolver
        self._permits = permits

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        addresses = await self._checked_addresses(request.url)
        for address in addresses[:-1]:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_pinned(request, addresses[-1]))

    async def _checked_addresses(self, url: httpx.URL) -> list[Address]:
        host = url.raw_host.decode("ascii")
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        try:
            answers = await self._resolver(host, port)
            addresses = [ip_address(answer) for answer in answers]
        except (OSError, ValueError) as error:
            raise BadInput(f"{url.host} has no address: {error}; accepted: the address of a public web page") from error
        refused = [address for address in addresses if not self._permits(address)]
        if refused or not addresses:
            where = refused[0] if refused else "no address"
            raise BadInput(f"{url.host} leads to {where}, which is not public; accepted: hosts of the public internet")
        return addresses[:CONNECT_TRIES]

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pinned(request: httpx.Request, address: Address) -> httpx.Request:
    # httpx has put the Host header in already, from the name; the certificate is checked against the name too.
    extensions = dict(request.extensions)
    try:
        ip_address(request.url.host)
    except ValueError:
        extensions["sni_hostname"] = request.url.raw_host.decode("ascii")
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
