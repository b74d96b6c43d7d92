"""The line before a model that answers one after the other: people first, nobody lost, whoever gives up."""

import asyncio

import pytest

from app.agent.models.line import Line


class Queue:
    """A line whose first place is taken, and who went through it after that, in order."""

    def __init__(self) -> None:
        self.line, self.passed = Line(), list[str]()
        self.leave = asyncio.Event()
        self._first = self.stand("first", urgent=False, until=self.leave)

    def stand(self, name: str, *, urgent: bool, until: asyncio.Event | None = None) -> "asyncio.Task[None]":
        async def wait() -> None:
            async with self.line.turn(urgent=urgent):
                self.passed.append(name)
                await (until.wait() if until is not None else asyncio.sleep(0))

        return asyncio.create_task(wait())

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def go_on(self) -> None:
        self.leave.set()
        await self.settle()


async def test_people_go_first_and_each_kind_keeps_its_order() -> None:
    queue = Queue()
    for name in ("goal 1", "person 1", "goal 2", "person 2"):
        queue.stand(name, urgent=name.startswith("person"))
    await queue.settle()
    assert queue.passed == ["first"]
    await queue.go_on()
    assert queue.passed == ["first", "person 1", "person 2", "goal 1", "goal 2"]


@pytest.mark.parametrize("gives_up", range(3))
@pytest.mark.parametrize("called_first", [False, True])
async def test_who_gives_up_holds_nobody_up(gives_up: int, called_first: bool) -> None:
    queue = Queue()
    names = ("a", "b", "c")
    waiting = [queue.stand(name, urgent=False) for name in names]
    await queue.settle()
    if called_first:
        queue.leave.set()
        await asyncio.sleep(0)  # the first one wakes now; whoever it calls has not
    waiting[gives_up].cancel()
    await queue.go_on()
    assert queue.passed in (["first", *(n for n in names if n != names[gives_up])], ["first", *names])
    queue.stand("later", urgent=False)
    await queue.settle()
    assert queue.passed[-1] == "later", "the line is free again"
