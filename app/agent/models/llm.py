"""The model client: one call in, words and wishes or a classified failure out; the only module that knows litellm."""

import asyncio
import gc
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import ModuleType
from typing import Any, Protocol

from app.agent.models.access import lacking, unreached
from app.agent.models.line import Line
from app.agent.models.provider import marked, may_think, takes_marks, thinking_of

Messages = Sequence[Mapping[str, Any]]


class Trouble(StrEnum):
    """Why a model call failed; decides what the turn does next."""

    OVERLOADED = "overloaded"
    REJECTED = "rejected"
    QUOTA = "quota"
    OVERFLOW = "overflow"
    UNAVAILABLE = "unavailable"
    INVALID = "invalid"


@dataclass(frozen=True)
class ModelFailure:
    """A call that gave no answer. `retry_after_s` is what the provider asked for, in seconds, if it did; `advice` is a
    sentence of the catalogue that says more than the trouble, if more is known.
    """

    trouble: Trouble
    message: str
    retry_after_s: float | None = None
    advice: str = ""


@dataclass(frozen=True)
class ToolWish:
    """A tool call the model asked for. `arguments` is JSON text as the model wrote it, valid or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Completion:
    """What the model answered. Tokens as the provider counted them, 0 where it does not say.

    `thinking` is what a reasoning model wants back with its calls, in its provider's form (see `provider`).
    """

    text: str
    wishes: tuple[ToolWish, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    thinking: dict[str, Any] | None = None


@dataclass(frozen=True)
class Asking:
    """How a model is asked. `think` is how hard (low, medium, high; "" as the model does by itself), `stable` how many
    of the messages the next call will begin with too. `on_text` makes the answer stream: it is called with all the
    text so far, again and again; it must not block or raise. What comes within `patience_s` is not shown to anybody,
    so a model whose answers came whole within it lately does not stream: that costs twice the time of ours. What is
    `urgent` (a person waits for it) goes first where a model answers one after the other.
    """

    think: str = ""
    stable: int = 0
    on_text: Callable[[str], None] | None = None
    patience_s: float = 0.0
    urgent: bool = False


@dataclass(frozen=True)
class Facts:
    """What is known of a model: tokens it takes (0: unknown) and gives, and dollars a token where a price is known.

    `sees` is whether it takes pictures.
    """

    window: int = 0
    max_output: int = 0
    input_usd: float | None = None
    output_usd: float | None = None
    sees: bool = False


PLAIN = Asking()

LATELY = 3
"""How many answers of a model tell how quick it is."""


class LLM(Protocol):
    """Any model. Called from inside steps; never retries; failures are values."""

    async def complete(
        self, model: str, messages: Messages, tools: Sequence[Mapping[str, Any]] = (), asking: Asking = PLAIN
    ) -> Completion | ModelFailure:
        """Ask `model` (a litellm name) with OpenAI-format messages and tool descriptions."""
        ...

    async def facts(self, model: str) -> Facts:
        """What is known of `model` without asking anybody."""
        ...

    async def warm(self) -> None:
        """Make ready, so that the first call does not wait."""
        ...


class Endpoint(Protocol):
    """Where a model of our own answers: see `LocalModel`."""

    async def start(self) -> str:
        """Base URL of the running endpoint; starts it first if needed."""
        ...


LOCAL_LIMITS = {"max_tokens": 400, "temperature": 0}
"""A tiny model wanders off when it may."""

LOCAL_FACTS = Facts(window=8_192, max_output=400, input_usd=0.0, output_usd=0.0)


class LiteLLM:
    """The client for every provider; litellm is imported at the first call, in a thread, because it takes seconds."""

    def __init__(
        self,
        *,
        timeout_s: float,
        api_base: str = "",
        api_base_for: str = "",
        local_name: str = "",
        local: Endpoint | None = None,
        seeing: Sequence[str] = (),
    ) -> None:
        """`api_base` is where models of the provider of the model `api_base_for` answer; others have their own.

        `seeing` names models that take pictures, besides those of which it is known.
        """
        self._timeout_s = timeout_s
        self._api_base = api_base
        self._api_base_for = api_base_for.partition("/")[0]
        self._local_name = local_name
        self._local = local
        self._line = Line()
        self._seeing = frozenset(seeing)
        self._importing = asyncio.Lock()
        self._litellm: ModuleType | None = None
        self._took_s: dict[str, deque[float]] = {}

    async def warm(self) -> None:
        """Import the client now, so that the first call does not wait for it."""
        await self._load()

    async def complete(
        self, model: str, messages: Messages, tools: Sequence[Mapping[str, Any]] = (), asking: Asking = PLAIN
    ) -> Completion | ModelFailure:
        if self._local is not None and model == self._local_name:
            async with self._line.turn(urgent=asking.urgent):
                return await self._complete(model, messages, tools, asking)
        return await self._complete(model, messages, tools, asking)

    async def _complete(
        self, model: str, messages: Messages, tools: Sequence[Mapping[str, Any]], asking: Asking
    ) -> Completion | ModelFailure:
        litellm = await self._load()
        request = self._request(model, messages, tools, asking)
        took_s = self._took_s.setdefault(model, deque(maxlen=LATELY))
        is_heard = asking.on_text is not None and not (len(took_s) == LATELY and max(took_s) < asking.patience_s)
        began = asyncio.get_running_loop().time()
        try:
            if self._local is not None and model == self._local_name:
                request |= {"api_base": await self._local.start(), "api_key": "none"} | LOCAL_LIMITS
                model, is_heard = "openai/local", False
            if is_heard and asking.on_text is not None:
                answer = await _streamed(litellm, model, request, asking.on_text)
            else:
                answer = await litellm.acompletion(model=model, **request)
        except Exception as error:  # litellm raises its own tree and what its many parts let through
            return self._advised(litellm, model, classify(litellm, error))
        took_s.append(asyncio.get_running_loop().time() - began)
        return _completion(litellm, model, answer)

    async def lacks(self, model: str) -> str:
        """Why `model` cannot be asked as things are set, in a sentence; "" if nothing is known to be missing."""
        return "" if model == self._local_name else lacking(await self._load(), model)

    def _advised(self, litellm: ModuleType, model: str, failure: ModelFailure) -> ModelFailure:
        if failure.trouble is Trouble.REJECTED:
            return replace(failure, advice=lacking(litellm, model))
        if failure.trouble is Trouble.UNAVAILABLE:
            is_there = model.partition("/")[0] == self._api_base_for
            return replace(failure, advice=unreached(model, self._api_base if is_there else ""))
        return failure

    def _request(
        self, model: str, messages: Messages, tools: Sequence[Mapping[str, Any]], asking: Asking
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "messages": marked(messages, asking.stable) if takes_marks(model) else list(messages),
            "num_retries": 0,
            "max_retries": 0,
            "timeout": self._timeout_s,
            "drop_params": True,
        }
        if tools:
            request["tools"] = list(tools)
        if asking.think and may_think(model, messages):
            request["reasoning_effort"] = asking.think
        if self._api_base and model.partition("/")[0] == self._api_base_for:
            request["api_base"] = self._api_base
        return request

    async def facts(self, model: str) -> Facts:
        if model == self._local_name:
            return LOCAL_FACTS
        litellm = await self._load()
        known = _known(litellm, model)
        return Facts(
            window=_count(known.get("max_input_tokens") or known.get("max_tokens")),
            max_output=_count(known.get("max_output_tokens")),
            input_usd=known.get("input_cost_per_token"),
            output_usd=known.get("output_cost_per_token"),
            sees=model in self._seeing or known.get("supports_vision") is True,
        )

    async def _load(self) -> ModuleType:
        async with self._importing:
            if self._litellm is None:
                self._litellm = await asyncio.to_thread(_import_litellm)
            return self._litellm


def _import_litellm() -> ModuleType:
    import litellm

    litellm.suppress_debug_info = True
    litellm.disable_hf_tokenizer_download = True
    _keep_no_log()
    gc.freeze()  # its million objects stay for ever: looking through them stops everything for a third of a second
    vars(litellm)["REPEATED_STREAMING_CHUNK_LIMIT"] = 10**9  # a long line of dashes in a table is no fault of the model
    return litellm


def _keep_no_log() -> None:
    """Let the client's own log of each call rest: nobody listens, and it copies every message of every call."""
    from litellm.litellm_core_utils.litellm_logging import Logging

    async def unheard(*_: Any, **__: Any) -> None:
        return None

    setattr(Logging, "async_success_handler", unheard)  # noqa: B010 - the class declares it as a method


def _known(litellm: ModuleType, model: str) -> Mapping[str, Any]:
    """What the price table says of a model; nothing of one that it does not list."""
    table = litellm.model_cost
    return table.get(model) or table.get(model.partition("/")[2]) or {}


def _count(value: Any) -> int:
    """A number of tokens; the table has texts in some places."""
    return int(value) if isinstance(value, int | float) and value > 0 else 0


async def _streamed(litellm: ModuleType, model: str, request: dict[str, Any], on_text: Callable[[str], None]) -> Any:
    """The whole answer, put together from its pieces; `on_text` hears of the text as it grows."""
    stream = await litellm.acompletion(model=model, stream=True, stream_options={"include_usage": True}, **request)
    pieces, text = [], ""
    async for piece in stream:
        pieces.append(piece)
        more = piece.choices[0].delta.content if piece.choices else None
        if more:
            text += more
            on_text(text)
    answer = litellm.stream_chunk_builder(pieces, messages=request["messages"])
    if not text and not _calls(answer) and getattr(stream, "received_finish_reason", "") is None:
        raise ConnectionError("The provider's stream ended before an answer began.")  # junk is passed off as an end
    return answer


def _calls(answer: Any) -> Any:
    return answer.choices[0].message.tool_calls if answer is not None and answer.choices else None


def _completion(litellm: ModuleType, model: str, answer: Any) -> Completion:
    choice = answer.choices[0].message if answer.choices else None
    wishes = tuple(
        ToolWish(id=call.id or f"call_{i}", name=call.function.name or "", arguments=call.function.arguments or "")
        for i, call in enumerate((choice.tool_calls if choice else None) or ())
    )
    tokens = getattr(answer, "usage", None)
    return Completion(
        text=(choice.content if choice else None) or "",
        wishes=wishes,
        input_tokens=getattr(tokens, "prompt_tokens", 0) or 0,
        output_tokens=getattr(tokens, "completion_tokens", 0) or 0,
        cost_usd=_cost(litellm, model, answer),
        thinking=thinking_of(choice) if wishes else None,
    )


def _cost(litellm: ModuleType, model: str, answer: Any) -> float | None:
    cost = (getattr(answer, "_hidden_params", None) or {}).get("response_cost")
    if cost is None and _known(litellm, model):
        try:
            cost = litellm.completion_cost(completion_response=answer, model=model)
        except Exception:  # a model without a price is told in many ways
            return None
    return float(cost) if isinstance(cost, int | float) else None


TOO_LONG = ("context length", "context window", "prompt is too long", "reduce the length of the messages")
NO_CREDIT = ("insufficient_quota", "credit balance", "billing", "exceeded your current quota")
LONGEST_WAIT_S = 86_400.0
_RETRY_IN = re.compile(r"retry(?:delay\W+| (?:in|after) )(\d+(?:\.\d+)?) ?s", re.IGNORECASE)


def classify(litellm: ModuleType, error: Exception) -> ModelFailure:
    """Tell the kinds of failure apart (litellm's exceptions and what providers write; first match wins)."""
    cause = getattr(error, "original_exception", None)  # a stream that breaks off is wrapped as "unavailable"
    error = cause if isinstance(cause, Exception) else error
    text = str(error)
    retry_after = _retry_after(error, text)
    trouble = _trouble(litellm, error, text.lower(), retry_after)
    waits = trouble in (Trouble.OVERLOADED, Trouble.UNAVAILABLE)
    return ModelFailure(trouble, text[:500], retry_after if waits else None)


def _trouble(litellm: ModuleType, error: Exception, low: str, retry_after: float | None) -> Trouble:
    status = getattr(error, "status_code", None)
    if isinstance(error, litellm.RateLimitError) or status in (402, 429):
        # Some name the quota also where the limit is one of a minute; those say when to come back.
        spent = "insufficient_quota" in low or (retry_after is None and _has(low, NO_CREDIT)) or status == 402
        return Trouble.QUOTA if spent else Trouble.OVERLOADED
    if isinstance(error, litellm.ContextWindowExceededError) or _has(low, TOO_LONG):
        return Trouble.OVERFLOW
    if isinstance(error, litellm.AuthenticationError | litellm.NotFoundError) or status in (401, 403, 404):
        return Trouble.REJECTED
    if isinstance(error, litellm.ServiceUnavailableError) or status in (503, 529):
        return Trouble.OVERLOADED
    if isinstance(error, litellm.BadRequestError) or status in (400, 422):
        if "credit balance" in low:
            return Trouble.QUOTA
        # A model name without a known provider is refused before anything is sent.
        return Trouble.REJECTED if "llm provider not provided" in low else Trouble.INVALID
    return Trouble.UNAVAILABLE


def _has(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def _retry_after(error: Exception, text: str) -> float | None:
    """Seconds the provider asked to wait, from its headers or else its words; None if it asked for none in reason."""
    sources = (
        getattr(getattr(error, "response", None), "headers", None),
        getattr(error, "litellm_response_headers", None),
    )
    asked = [headers["retry-after"] for headers in sources if headers and "retry-after" in headers]
    asked += _RETRY_IN.findall(text)
    for value in asked:
        try:
            seconds = float(value)
        except ValueError:
            continue
        if 0 <= seconds <= LONGEST_WAIT_S:
            return seconds
    return None
