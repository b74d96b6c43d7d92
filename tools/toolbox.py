"""All tools of a turn, put together."""

from collections.abc import Mapping, Sequence

from app.agent.tool import Tool, Toolbox
from app.errors import ConfigError
from tools.ask import ask_user
from tools.background_tools import background_tools
from tools.delegate import delegate_task
from tools.download import download_tool
from tools.edit import edit
from tools.files import ls, write
from tools.goals import create_goal, goal_status
from tools.history import search_history
from tools.learnings import record_learning
from tools.memory import remember
from tools.read import read
from tools.sandbox import NO_SANDBOX, Sandbox
from tools.scan import ripgrep
from tools.search import find_tool, grep_tool
from tools.send import send_file
from tools.shell import bash_tool
from tools.tasks import cancel_task, list_tasks
from tools.tracked import external_job, task_block, task_complete, task_progress, task_reply, task_start
from tools.transcribe import transcribe
from tools.wakes import cancel_wake, list_wakes, schedule_wake
from tools.web import web_fetch_tool


def make_toolbox(
    *,
    environment: Mapping[str, str],
    secrets: Sequence[str] = (),
    sandbox: Sandbox = NO_SANDBOX,
    own: Sequence[Tool] = (),
) -> Toolbox:
    """The tools. `environment` is the service's; commands see the harmless part of it only.

    `secrets` are values that are taken out of what commands print, which run in `sandbox`. `own` are the operator's.
    """
    rg = ripgrep(environment)
    built_in = Toolbox.of(
        read,
        write,
        edit,
        bash_tool(environment, secrets, sandbox),
        *background_tools(secrets),
        grep_tool(rg),
        find_tool(rg),
        ls,
        remember,
        record_learning,
        search_history,
        send_file,
        transcribe,
        web_fetch_tool(),
        download_tool(),
        ask_user,
        delegate_task,
        list_tasks,
        cancel_task,
        create_goal,
        goal_status,
        schedule_wake,
        list_wakes,
        cancel_wake,
        task_start,
        task_progress,
        task_complete,
        task_block,
        external_job,
        task_reply,
    )
    if taken := sorted(tool.name for tool in own if tool.name in built_in.tools):
        raise ConfigError(f"tools.toml: {', '.join(taken)}: there is a tool of this name already.")
    return Toolbox.of(*built_in.tools.values(), *own)
