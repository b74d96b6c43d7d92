"""CEL as Inngest reads it: a missing field is a value of its own, text and numbers add, truth is as in JavaScript.

The grammar is cel-python's; the evaluation is ours, because no stock evaluator gives Inngest's answers
(inngest/inngest, pkg/expressions). An expression is compiled once into nested closures; evaluating never raises.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

from celpy.celparser import CELParseError, CELParser
from lark import Token, Tree

from app.engine import cel
from app.engine.cel import MISSING
from app.engine.errors import BadExpression

#: Evaluates a node with the names in scope.
Node = Callable[[Mapping[str, Any]], Any]
_NOW = "now()"
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "relation_eq": cel.equals,
    "relation_ne": cel.differs,
    "relation_lt": cel.less,
    "relation_le": cel.less_or_equal,
    "relation_gt": cel.greater,
    "relation_ge": cel.greater_or_equal,
    "relation_in": cel.contained,
    "addition_add": cel.add,
    "addition_sub": cel.subtract,
    "multiplication_mul": cel.multiply,
    "multiplication_div": cel.divide,
    "multiplication_mod": cel.modulo,
}
_MACROS = {"exists": 2, "all": 2, "exists_one": 2, "filter": 2, "map": 2}


class Expression:
    """A compiled expression; `source` is its text."""

    def __init__(self, source: str, node: Node) -> None:
        self.source = source
        self._node = node

    @staticmethod
    @lru_cache(maxsize=2048)
    def compile(source: str) -> "Expression":
        """Compile an expression; raises BadExpression with the reason."""
        try:
            tree = CELParser().parse(source)
            return Expression(source, _compile(tree))
        except (CELParseError, RecursionError, ValueError, KeyError) as error:
            reason = error.args[0] if error.args else "it cannot be read"
            raise BadExpression(f"The expression '{source}' is not accepted: {reason}") from None

    def evaluate(self, names: Mapping[str, Any], now_ms: int = 0) -> Any:
        """The value for these names (`event`, `async`); a missing field gives None. Never raises."""
        try:
            value = self._node({**names, _NOW: now_ms})
        except (RecursionError, OverflowError, TypeError, ValueError, ArithmeticError):
            return None
        if isinstance(value, datetime):
            return value.isoformat()
        return None if value is MISSING else value

    def test(self, names: Mapping[str, Any], now_ms: int = 0) -> bool:
        """Whether the value is true, as JavaScript counts truth."""
        return cel.truthy(self.evaluate(names, now_ms))


def _compile(tree: Any) -> Node:
    """A node of the parse tree as a closure; chains of single children collapse."""
    kind, children = tree.data, tree.children
    if kind in _COMPILERS:
        return _COMPILERS[kind](children)
    if kind in ("relation", "addition", "multiplication", "unary") and len(children) == 2:
        return _operation(children)
    if len(children) == 1 and isinstance(children[0], Tree):
        return _compile(children[0])
    raise ValueError(f"'{kind}' is not supported here")


def _operation(children: list[Any]) -> Node:
    operator, right = children[0].data, _compile(children[1])
    if operator == "unary_not":
        return lambda names: cel.negate(right(names))
    if operator == "unary_neg":
        return lambda names: cel.minus(right(names))
    apply, left = _BINARY[operator], _compile(children[0].children[0])
    return lambda names: apply(left(names), right(names))


def _ternary(children: list[Any]) -> Node:
    if len(children) == 1:
        return _compile(children[0])
    condition, yes, no = (_compile(child) for child in children)

    def choose(names: Mapping[str, Any]) -> Any:
        value = condition(names)
        if value is True:
            return yes(names)
        return no(names) if value is False else MISSING

    return choose


def _either(children: list[Any]) -> Node:
    if len(children) == 1:
        return _compile(children[0])
    left, right = (_compile(child) for child in children)

    def either(names: Mapping[str, Any]) -> Any:
        value = left(names)
        return value if cel.truthy(value) else right(names)

    return either


def _both(children: list[Any]) -> Node:
    if len(children) == 1:
        return _compile(children[0])
    left, right = (_compile(child) for child in children)

    def both(names: Mapping[str, Any]) -> Any:
        value = left(names)
        return right(names) if cel.truthy(value) else value

    return both


def _name(children: list[Any]) -> Node:
    name = str(children[0])
    return lambda names: names.get(name, MISSING)


def _field(children: list[Any]) -> Node:
    owner, name = _compile(children[0]), str(children[1])
    return lambda names: cel.member(owner(names), name)


def _index(children: list[Any]) -> Node:
    owner, key = _compile(children[0]), _compile(children[1])
    return lambda names: cel.member(owner(names), key(names))


def _literal(children: list[Any]) -> Node:
    value = cel.literal(children[0])
    return lambda names: value


def _list(children: list[Any]) -> Node:
    items = _arguments(children)
    return lambda names: [item(names) for item in items]


def _map(children: list[Any]) -> Node:
    parts = [_compile(child) for child in (children[0].children if children else [])]
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    return lambda names: {key(names): value(names) for key, value in pairs}


def _arguments(children: list[Any]) -> list[Node]:
    return [_compile(child) for child in (children[0].children if children and children[0] is not None else [])]


def _call(children: list[Any]) -> Node:
    name = str(children[0])
    if name == "has":
        return _has(children[1].children[0])
    arguments = _arguments(children[1:])
    if name in ("now", "now_plus", "now_minus"):
        return lambda names: cel.moment(name, names[_NOW], [argument(names) for argument in arguments])
    function = cel.FUNCTIONS.get(name)
    if function is None:
        raise ValueError(f"there is no function '{name}'")
    return lambda names: cel.call(name, [argument(names) for argument in arguments])


def _method(children: list[Any]) -> Node:
    owner, name = _compile(children[0]), str(children[1])
    if name in _MACROS and len(children) == 3 and len(children[2].children) == _MACROS[name]:
        return _macro(owner, name, children[2].children)
    arguments = _arguments(children[2:])
    if name not in cel.FUNCTIONS:
        raise ValueError(f"there is no function '{name}'")
    return lambda names: cel.call(name, [owner(names), *(argument(names) for argument in arguments)])


def _has(tree: Any) -> Node:
    present = _compile(tree)
    return lambda names: present(names) is not MISSING


def _macro(owner: Node, name: str, arguments: list[Any]) -> Node:
    variable = str(next(iter(arguments[0].scan_values(lambda value: isinstance(value, Token)))))
    body = _compile(arguments[1])

    def run(names: Mapping[str, Any]) -> Any:
        items = owner(names)
        if not isinstance(items, list | dict):
            return False
        return cel.fold(name, list(items), lambda item: body({**names, variable: item}))

    return run


_COMPILERS: dict[str, Callable[[list[Any]], Node]] = {
    "expr": _ternary,
    "conditionalor": _either,
    "conditionaland": _both,
    "ident": _name,
    "dot_ident": _name,
    "member_dot": _field,
    "member_index": _index,
    "literal": _literal,
    "list_lit": _list,
    "map_lit": _map,
    "ident_arg": _call,
    "member_dot_arg": _method,
}
