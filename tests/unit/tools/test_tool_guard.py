"""The guard: which addresses are public, and that the checked one is the one connected to."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadInput
from tools.guard import GuardedTransport, is_public, resolve


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1"),
        *("224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "192.0.2.1", "203.0.113.9"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
        *(
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:a00:1",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2002:a00:1::1",
        ),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1"),
    ],
)
def test_these_are_not_the_public_internet(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["93.184.215.14", "1.1.1.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)
def test_these_are(address: str) -> None:
    assert is_public(ip_address(address))


@given(st.ip_addresses(v=4))
def test_an_address_carried_in_another_is_judged_by_itself(address: IPv4Address) -> None:
    for wrapped in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public(IPv6Address(wrapped)) == is_public(address)


class Recorded(httpx.AsyncBaseTransport):
    """Notes what would have been connected to; the addresses in `dead` do not answer."""

    def __init__(self, *dead: str) -> None:
        self.requests: list[httpx.Request] = []
        self._dead = dead

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.host in self._dead:
            raise httpx.ConnectError("no answer")
        return httpx.Response(200, text="hello")


class Names:
    """A resolver with one list of answers after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return next(self._answers)


async def get(inner: Recorded, names: Names, url: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=GuardedTransport(inner, resolver=names), trust_env=False) as client:
        return await client.get(url)


# TRAPS, Tools: "SSRF through redirects and DNS rebinding -> ... connection made to the checked address".
async def test_the_checked_address_is_used_with_the_name_for_host_and_tls() -> None:
    inner, names = Recorded(), Names(["1.1.1.1"], ["127.0.0.1"])
    await get(inner, names, "https://Bücher.example:8443/a?b=c")
    (request,) = inner.requests
    assert names.asked == [("xn--bcher-kva.example", 8443)]
    assert str(request.url) == "https://1.1.1.1:8443/a?b=c"
    assert request.headers["host"] == "xn--bcher-kva.example:8443"
    assert request.extensions["sni_hostname"] == "xn--bcher-kva.example"


async def test_a_second_answer_is_checked_like_the_first() -> None:
    inner, names = Recorded(), Names(["1.1.1.1"], ["127.0.0.1"])
    async with httpx.AsyncClient(transport=GuardedTransport(inner, resolver=names), trust_env=False) as client:
        await client.get("http://rebinding.example/")
        with pytest.raises(BadInput, match=r"rebinding\.example leads to 127\.0\.0\.1, which is not public"):
            await client.get("http://rebinding.example/")
    assert len(inner.requests) == 1


@pytest.mark.parametrize(
    "answers", [["127.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["::ffff:127.0.0.1"], ["fe80::1%eth0"], []]
)
async def test_one_private_answer_among_many_refuses_the_host(answers: list[str]) -> None:
    inner = Recorded()
    with pytest.raises(BadInput, match="not public; accepted: hosts of the public internet"):
        await get(inner, Names(answers), "http://mixed.example/")
    assert inner.requests == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    inner = Recorded("2606:4700::1111", "1.0.0.1")
    await get(inner, Names(["2606:4700::1111", "1.0.0.1", "1.1.1.1", "9.9.9.9"]), "http://two.example/")
    assert [request.url.host for request in inner.requests] == ["2606:4700::1111", "1.0.0.1", "1.1.1.1"]
    with pytest.raises(httpx.ConnectError):
        await get(Recorded("1.1.1.1"), Names(["1.1.1.1"]), "http://dead.example/")


async def test_a_name_without_address_is_explained() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    async with httpx.AsyncClient(transport=GuardedTransport(Recorded(), resolver=unknown), trust_env=False) as client:
        with pytest.raises(BadInput, match="has no address: Name or service not known; accepted"):
            await client.get("http://nowhere.example/")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f000001", "017700000001", "127.1", "[::1]", "localhost"]
)
async def test_every_way_to_write_the_loopback_is_seen_through(host: str) -> None:
    inner = Recorded()
    async with httpx.AsyncClient(transport=GuardedTransport(inner), trust_env=False) as client:
        with pytest.raises(BadInput, match=r"not public|has no address"):
            await client.get(f"http://{host}/")
    assert inner.requests == []


async def test_the_systems_resolver_is_asked_off_the_loop() -> None:
    assert await resolve("127.0.0.1", 80) == ["127.0.0.1"]
