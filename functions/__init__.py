"""The six durable functions, as the service registers them."""

from typing import Any

import inngest

from app.agent.harness import Harness
from functions.acknowledge import acknowledge
from functions.failure_handler import failure_handler
from functions.handle_message import handle_message
from functions.heartbeat import heartbeat
from functions.send_reply import send_reply
from functions.sub_agent import sub_agent


def all_functions(client: inngest.Inngest, harness: Harness) -> list[inngest.Function[Any]]:
    """handle-message, send-reply, acknowledge, failure-handler, heartbeat and sub-agent, bound to `harness`."""
    makers = (handle_message, send_reply, acknowledge, failure_handler, heartbeat, sub_agent)
    return [make(client, harness) for make in makers]
