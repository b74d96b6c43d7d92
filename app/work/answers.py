"""Structured answers of a model: found in its words, validated, refused with sentences it can act on. Pure."""

import json
import re
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import BadInput, fault_of

MAX_TOPICS = 5
_FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?\s*```", re.DOTALL)

Form = TypeVar("Form", bound=BaseModel)


class Topic(BaseModel):
    """A page about a subject, and what this source adds to it in a sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    page: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+){0,7}$", max_length=60)]
    title: Annotated[str, Field(min_length=2, max_length=80, pattern=r"^[^\n\"<>\[\]]+$")]
    entry: Annotated[str, Field(min_length=5, max_length=400)]


class Topics(BaseModel):
    """Where a model chooses topics."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    topics: Annotated[tuple[Topic, ...], Field(min_length=1, max_length=MAX_TOPICS)]


class Verdict(BaseModel):
    """Where a model judges a product: let it pass, have it made again with a hint, or stop with a reason."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verdict: Literal["pass", "redo", "stop"]
    hint: Annotated[str, Field(max_length=2_000)] = ""
    reason: Annotated[str, Field(max_length=2_000)] = ""


TOPICS_FORM = (
    'Answer with one JSON object and nothing else: {"topics": [{"page": "small-words-with-dashes", "title": "Name of '
    'the topic", "entry": "One sentence on what this source says of it."}]}, with 1 to '
    f"{MAX_TOPICS} topics. Where a topic has a page already, use that page."
)
VERDICT_FORM = (
    'Answer with one JSON object and nothing else: {"verdict": "pass"}, or {"verdict": "redo", "hint": "what to do '
    'better"}, or {"verdict": "stop", "reason": "why nothing good can come of this source"}.'
)


def parse_topics(answer: str) -> Topics:
    """The topics in a model's answer. Raises BadInput with each fault."""
    found = parse_answer(answer, Topics)
    pages = [topic.page for topic in found.topics]
    if len(set(pages)) != len(pages):
        raise BadInput("topics: two of them have the same page")
    return found


def parse_verdict(answer: str) -> Verdict:
    """The verdict in a model's answer. Raises BadInput with each fault."""
    found = parse_answer(answer, Verdict)
    if found.verdict == "redo" and not found.hint.strip():
        raise BadInput("hint: is missing; redo needs one")
    if found.verdict == "stop" and not found.reason.strip():
        raise BadInput("reason: is missing; stop needs one")
    return found


def parse_answer(answer: str, form: type[Form]) -> Form:
    """The JSON object in `answer`, alone, fenced, or from its first brace to its last. Raises BadInput."""
    fenced = _FENCED.search(answer)
    text = fenced[1] if fenced else answer[answer.find("{") : answer.rfind("}") + 1]
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this is not JSON: {error}") from error
    try:
        return form.model_validate(data)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {fault_of(e)}" for e in error.errors())
        raise BadInput("; ".join(faults)) from error
