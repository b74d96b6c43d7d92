"""Which model does what in a turn: chosen by people for a session, by the operator for a role. Pure."""

from dataclasses import dataclass

from app.config import LOCAL_MODEL, Settings


@dataclass(frozen=True)
class Models:
    """`main` answers, `fallback` when that one cannot ("" for nobody), `summary` shortens; `think` is how hard."""

    main: str = ""
    fallback: str = ""
    summary: str = ""
    think: str = ""

    @property
    def is_tiny(self) -> bool:
        return self.main == LOCAL_MODEL


def choose_models(settings: Settings, model: str, think: str, *, delegates: bool) -> Models:
    """For one turn. `model` and `think` are what people chose for its session, or "".

    A sub-agent (which delegates to nobody) has the operator's model for sub-agents, else that of who asked it. Each
    turn begins with the main model again, whatever the last one fell back to.
    """
    main = (not delegates and settings.subagent_model) or model or settings.model
    fallback = settings.fallback_agent_model if settings.fallback_agent_model != main else ""
    return Models(main, fallback, settings.summary_model, "" if think == "off" else think)
