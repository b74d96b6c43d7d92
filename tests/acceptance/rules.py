"""What must hold after any turn, however often its process was killed."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.acceptance.service import Service
from tests.fakes.model_server import text_of


def check_requests(requests: Iterable[Mapping[str, Any]]) -> None:
    """Every request to the model is one that any provider takes."""
    for request in requests:
        check_messages(request["messages"])


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """System first, then a user; each call has exactly its results, directly behind it; nothing is empty."""
    roles = [message["role"] for message in messages]
    assert roles[0] == "system" and roles[1] == "user" and "system" not in roles[1:], roles
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, f"a result without its call: {message}"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, f"calls without results: {waiting}"
        calls = message.get("tool_calls") or []
        waiting = [call["id"] for call in calls]
        assert len(set(waiting)) == len(waiting), f"two calls share an id: {waiting}"
        assert calls or text_of(message).strip(), f"an empty message: {message}"
    assert not waiting, f"calls without results: {waiting}"
    assert all(pair != ("user", "user") for pair in itertools.pairwise(roles)), roles


def check_transcripts(service: Service) -> None:
    """Nothing is left half-done: every call has a result or was called off, every message and every turn an end."""
    left = service.unsettled()
    assert left == {}, left
    unfinished = """
        SELECT calls.* FROM calls JOIN turns ON turns.run_id = calls.run_id
        WHERE result IS NULL AND NOT (calls.state = 'planned' AND turns.state IN ('superseded', 'stopped', 'offered'))
    """
    assert service.rows(unfinished) == []
    broken = """
        SELECT child.id FROM messages child LEFT JOIN messages parent ON parent.id = child.parent_id
        WHERE child.parent_id IS NOT NULL AND (parent.id IS NULL OR parent.session_id <> child.session_id)
    """
    assert service.rows(broken) == [], "a message hangs on a parent that is not of its session"
