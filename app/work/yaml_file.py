"""YAML as people and the model write it in the workspace, read within bounds: whatever it is, it takes a moment."""

from collections import Counter
from typing import Any

import yaml

from app.errors import BadInput

MAX_BYTES = 64 * 1024
MAX_DEPTH = 20
"""Of lists and mappings within one another: the parser's time grows with its square."""


def load(where: str, text: str) -> Any:
    """What `text` says; None if nothing. Raises BadInput, beginning with `where`, for what is no YAML, too large or
    nested too deep, and for aliases and repeated keys.
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise BadInput(f"{where}: the file is too large; accepted: up to {MAX_BYTES // 1024} KB")
    try:
        _check(where, text)
        return yaml.load(text, Loader=_UniqueKeys)  # noqa: S506 - a safe loader that refuses repeated keys
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadInput(f"{where}: this is not YAML: {' '.join(str(error).split())}") from error


def _check(where: str, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):  # what it stands for may grow without bounds where it is copied
            raise BadInput(f"{where}: aliases (*name) are not accepted; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise BadInput(f"{where}: nested too deep; accepted: up to {MAX_DEPTH} lists and mappings in one another")


class _UniqueKeys(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """Of two equal keys the plain loader keeps the last one without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        counts = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := next((key for key, count in counts.items() if count > 1), None):
            raise yaml.YAMLError(f"the key {twice} stands twice, line {node.start_mark.line + 1} and below")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping
