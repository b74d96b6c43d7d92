"""All tools of a turn, put together."""

from collections.abc import Mapping

from app.agent.tool import Toolbox
from tools.delegate import delegate_task
from tools.edit import edit
from tools.files import ls, write
from tools.memory import remember
from tools.read import read
from tools.scan import ripgrep
from tools.search import find_tool, grep_tool
from tools.shell import bash_tool
from tools.web import web_fetch_tool


def make_toolbox(*, environment: Mapping[str, str]) -> Toolbox:
    """The ten tools. `environment` is the service's; commands see the harmless part of it only."""
    rg = ripgrep(environment)
    return Toolbox.of(
        read,
        write,
        edit,
        bash_tool(environment),
        grep_tool(rg),
        find_tool(rg),
        ls,
        remember,
        web_fetch_tool(),
        delegate_task,
    )
