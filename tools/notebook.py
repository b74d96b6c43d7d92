"""A Jupyter notebook as text: its cells in order, with what they printed."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.agent.output import clean
from tools.sniff import size

OUTPUT_CHARACTERS = 4000


def notebook(text: str) -> str | None:
    """The notebook in the JSON `text` for a model to read, None if it is no notebook."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return None
    return "\n".join(line for number, cell in enumerate(cells, 1) for line in _cell(number, _mapping(cell)))


def _cell(number: int, cell: Mapping[str, Any]) -> Iterator[str]:
    kind = str(cell.get("cell_type") or "unknown")
    yield f"[cell {number}, {kind}]"
    yield _text(cell.get("source"))
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        yield f"[output of cell {number}]"
        yield _output(_mapping(output))


def _output(output: Mapping[str, Any]) -> str:
    if "ename" in output:
        trace = output.get("traceback")
        lines = trace if isinstance(trace, list) else []
        return _short("\n".join([f"{output['ename']}: {output.get('evalue', '')}", *map(str, lines)]))
    if "text" in output:
        return _short(_text(output["text"]))
    data = _mapping(output.get("data"))
    others = ", ".join(f"{kind} ({size(len(_text(value)))})" for kind, value in data.items() if kind != "text/plain")
    plain = _short(_text(data.get("text/plain"))) if "text/plain" in data else ""
    return "\n".join(part for part in (plain, f"(not shown: {others})" if others else "") if part) or "(empty)"


def _short(text: str) -> str:
    text = clean(text)
    if len(text) <= OUTPUT_CHARACTERS:
        return text
    half = OUTPUT_CHARACTERS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _text(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
