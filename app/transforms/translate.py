"""The mapping of a way in as JavaScript: its `to_event`, and every function and constant that it needs, translated.

So that there is one mapping and not two. What can be translated is plain Python: functions with `if`, `for`, `yield`
and `try`, expressions, comprehensions, f-strings without formats, regular expressions, and the models of
`app/events.py`. Anything else is refused by name.
"""

import ast
import contextlib
import dataclasses
import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from app.errors import BadInput

OURS = ("webhooks.",)
BINARY = {ast.Add: "$add", ast.BitOr: "$merge"}
ARITHMETIC = {ast.Mult: "*", ast.Sub: "-"}
ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
BUILT_IN = {"bool", "str", "int", "len", "max", "map", "next", "iter", "tuple", "list", "any", "all", "as_input"}
TYPES = {"dict", "str", "int", "bool", "list", "float"}


class Translation:
    """The functions and constants that are needed, each written once, in the order in which they were met."""

    def __init__(self) -> None:
        self._written: dict[str, str] = {}
        self._origin: dict[str, Any] = {}

    def text(self) -> str:
        return "\n\n".join(self._written.values())

    def need(self, name: str, value: Any) -> str:
        """The JavaScript name of `value`, which Python calls `name`; written down if it is new."""
        if name in self._origin:
            if self._origin[name] is not value:
                raise BadInput(f"Two things are called {name}; a transform has one room for all names.")
            return name
        self._origin[name] = value
        self._written[name] = ""  # keeps the order, and ends what refers to itself
        self._written[name] = self._written_out(name, value)
        return name

    def _written_out(self, name: str, value: Any) -> str:
        if inspect.isfunction(value):
            return _Function(self, value).text()
        if isinstance(value, type) and issubclass(value, BaseModel):
            return f"const {name} = $model({json.dumps(name)}, {json.dumps(_fields(value))});"
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            defaults = {f.name: f.default for f in dataclasses.fields(value) if f.default is not dataclasses.MISSING}
            order = json.dumps([f.name for f in dataclasses.fields(value)])
            return f"const {name} = $record({order}, {literal(defaults)});"
        return f"const {name} = {literal(value)};"


def _fields(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Name to alias and default of each field; no default: it is left out."""
    found: dict[str, dict[str, Any]] = {}
    for name, info in model.model_fields.items():
        default = info.default_factory() if info.default_factory else info.default  # type: ignore[call-arg]
        given = {} if default is PydanticUndefined or default is None else {"default": default}
        found[name] = {"alias": info.alias or name} | given
    return found


def literal(value: Any) -> str:
    """A constant as JavaScript. Raises BadInput for what is none."""
    match value:
        case None | bool() | int() | float() | str():
            return json.dumps(value)
        case re.Pattern():
            return f"$re({json.dumps(value.pattern)}, {int(value.flags & re.IGNORECASE)})"
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case set() | frozenset():
            return f"new Set([{', '.join(sorted(map(literal, value)))}])"
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(str(k))}: {literal(v)}" for k, v in value.items()) + "}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return literal({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    raise BadInput(f"{value!r} is no constant that JavaScript could have.")


class _Function:
    """One function: its source, its names, and what they are in its module."""

    def __init__(self, whole: Translation, function: Callable[..., Any]) -> None:
        self._whole, self._function = whole, function
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise BadInput(f"{function.__name__} is no plain function.")
        self._tree = tree
        self._globals = function.__globals__
        arguments = tree.args
        self._parameters = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        self._local = set(self._parameters) | _assigned(tree)

    def text(self) -> str:
        parameters = inspect.signature(self._function).parameters.values()
        written = [p.name if p.default is p.empty else f"{p.name} = {literal(p.default)}" for p in parameters]
        own = sorted(_assigned(self._tree) - set(self._parameters))
        star = "*" if _yields(self._tree) else ""
        declared = [f"  let {', '.join(own)};"] if own else []
        body = self._block(self._tree.body)
        end = [] if star else ["  return null;"]
        lines = "\n".join([*declared, *body, *end])
        return f"function{star} {self._tree.name}({', '.join(written)}) {{\n{lines}\n}}"

    def _block(self, statements: list[ast.stmt]) -> list[str]:
        return [f"  {line}" for statement in statements for line in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return []  # words for readers of Python
            case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                return [f"yield {self._x(value)};"]
            case ast.Expr(value=value):
                return [f"{self._x(value)};"]
            case ast.Return(value=None):
                return ["return null;"]
            case ast.Return(value=ast.expr() as value):
                return [f"return {self._x(value)};"]
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                given = f"$list({self._x(value)})" if isinstance(target, ast.Tuple) else self._x(value)
                return [f"{self._target(target)} = {given};"]
            case ast.If(test=test, body=body, orelse=orelse):
                other = ["} else {", *self._block(orelse)] if orelse else []
                return [f"if ($t({self._x(test)})) {{", *self._block(body), *other, "}"]
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                return [f"for ({self._target(target)} of $it({self._x(over)})) {{", *self._block(body), "}"]
            case ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]):
                return ["try {", *self._block(body), "} catch {", *self._block(handler.body), "}"]
        raise self._unknown(node)

    def _target(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Tuple(elts=parts):
                return f"[{', '.join(map(self._target, parts))}]"
        raise self._unknown(node)

    def _x(self, node: ast.expr) -> str:
        """An expression."""
        if isinstance(node, ast.Call):
            return self._call(node)
        for write in (self._value, self._operation, self._display, self._inner, self._reached):
            text = write(node)
            if text is not None:
                return text
        raise self._unknown(node)

    def _value(self, node: ast.expr) -> str | None:
        match node:
            case ast.Constant(value=value):
                return literal(value)
            case ast.Name(id=name):
                return name if name in self._local else self._whole.need(name, self._global(name))
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                return f"({name} = {self._x(value)})"
            case ast.JoinedStr(values=parts):
                return "(" + " + ".join(['""', *map(self._piece, parts)]) + ")"
        return None

    def _operation(self, node: ast.expr) -> str | None:
        match node:
            case ast.BoolOp(op=op, values=values):
                name = "$and" if isinstance(op, ast.And) else "$or"
                return f"{name}({', '.join(f'() => {self._x(value)}' for value in values)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!$t({self._x(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._x(operand)}"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return f"{BINARY[type(op)]}({self._x(left)}, {self._x(right)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return f"({self._x(left)} {ARITHMETIC[type(op)]} {self._x(right)})"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compared(self._x(left), op, self._x(right), node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return f"($t({self._x(test)}) ? {self._x(body)} : {self._x(orelse)})"
        return None

    def _display(self, node: ast.expr) -> str | None:
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return f"[{', '.join(map(self._part, parts))}]"
            case ast.Set(elts=parts):
                return f"new Set([{', '.join(map(self._part, parts))}])"
            case ast.Dict(keys=keys, values=values):
                return "{" + ", ".join(self._pair(k, v) for k, v in zip(keys, values, strict=True)) + "}"
        return None

    def _inner(self, node: ast.expr) -> str | None:
        """What has names of its own."""
        match node:
            case ast.Lambda(args=arguments, body=body):
                with self._knowing({a.arg for a in arguments.args}):
                    return f"(({', '.join(a.arg for a in arguments.args)}) => {self._x(body)})"
            case ast.GeneratorExp(elt=elt, generators=[one]) | ast.ListComp(elt=elt, generators=[one]):
                with self._knowing(_names(one.target)):
                    return self._comprehended(one, f"$r.push({self._x(elt)});", "[]")
            case ast.DictComp(key=key, value=value, generators=[one]):
                with self._knowing(_names(one.target)):
                    return self._comprehended(one, f"$r[{self._x(key)}] = {self._x(value)};", "{}")
        return None

    def _reached(self, node: ast.expr) -> str | None:
        match node:
            case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                bounds = ", ".join("null" if bound is None else self._x(bound) for bound in (lower, upper))
                return f"$slice({self._x(value)}, {bounds})"
            case ast.Subscript(value=value, slice=index):
                return f"$at({self._x(value)}, {self._x(index)})"
            case ast.Attribute(value=value, attr=name):
                return self._of_module(value, name) or f"{self._x(value)}.{name}"
        return None

    def _piece(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str() as text):
                return json.dumps(text)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return f"$str({self._x(value)})"
        raise self._unknown(node)

    def _part(self, node: ast.expr) -> str:
        return f"...$it({self._x(node.value)})" if isinstance(node, ast.Starred) else self._x(node)

    def _pair(self, key: ast.expr | None, value: ast.expr) -> str:
        return f"...{self._x(value)}" if key is None else f"[{self._x(key)}]: {self._x(value)}"

    def _compared(self, left: str, op: ast.cmpop, right: str, node: ast.expr) -> str:
        match op:
            case ast.Eq() | ast.NotEq():
                return f"{'' if isinstance(op, ast.Eq) else '!'}$eq({left}, {right})"
            case ast.Is() | ast.IsNot():
                return f"({left} {'===' if isinstance(op, ast.Is) else '!=='} {right})"
            case ast.In() | ast.NotIn():
                return f"{'' if isinstance(op, ast.In) else '!'}$in({left}, {right})"
        if type(op) in ORDER:
            return f"({left} {ORDER[type(op)]} {right})"
        raise self._unknown(node)

    def _comprehended(self, one: ast.comprehension, keep: str, empty: str) -> str:
        tests = "".join(f"if (!$t({self._x(test)})) continue; " for test in one.ifs)
        loop = f"for (const {self._target(one.target)} of $it({self._x(one.iter)})) {{ {tests}{keep} }}"
        return f"(() => {{ const $r = {empty}; {loop} return $r; }})()"

    @contextlib.contextmanager
    def _knowing(self, names: set[str]) -> Iterator[None]:
        before = set(self._local)
        self._local |= names
        yield
        self._local = before

    def _call(self, node: ast.Call) -> str:
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            return self._is_instance(node)
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
        ):
            return self._pattern(node, node.func.attr)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "fromtimestamp":
            return f"$moment({self._x(node.args[0])})"  # the zone is always UTC, a test sees to that
        given = [self._part(argument) for argument in node.args]
        match node.func:
            case ast.Name(id=name) if name in BUILT_IN:
                return f"${name}({', '.join([*given, *self._options(node)])})"
            case ast.Name(id=name) if name not in self._local:
                return self._called(name, self._global(name), node, given)
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if self._module(owner) is not None:
                return self._called(name, getattr(self._module(owner), name), node, given)
            case ast.Attribute(value=value, attr=name):
                return f"$call({', '.join([self._x(value), json.dumps(name), *given, *self._options(node)])})"
        raise self._unknown(node)

    def _pattern(self, node: ast.Call, name: str) -> str:
        if name not in ("match", "fullmatch", "sub", "compile", "escape") or node.keywords:
            raise self._unknown(node)
        flags = [a for a in node.args if isinstance(a, ast.Attribute) and a.attr == "IGNORECASE"]
        given = [self._x(argument) for argument in node.args if argument not in flags]
        return f"$re_{name}({', '.join([*given, *('1' for _ in flags)])})"

    def _called(self, name: str, value: Any, node: ast.Call, given: list[str]) -> str:
        """A call of something of ours; what it is given by name is put where it belongs."""
        called = self._whole.need(name, value)
        if not inspect.isfunction(value):
            return f"{called}({', '.join([*given, *self._options(node)])})"
        order = list(inspect.signature(value).parameters)
        by_name = {keyword.arg: self._x(keyword.value) for keyword in node.keywords}
        if None in by_name:
            raise self._unknown(node)
        places = [*given, *(by_name.get(parameter, "undefined") for parameter in order[len(given) :])]
        return f"{called}({', '.join(places)})"

    def _options(self, node: ast.Call) -> list[str]:
        """What a call gives by name, as one object at its end."""
        pairs = [
            f"...{self._x(keyword.value)}" if keyword.arg is None else f"{keyword.arg}: {self._x(keyword.value)}"
            for keyword in node.keywords
        ]
        return ["{" + ", ".join(pairs) + "}"] if pairs else []

    def _is_instance(self, node: ast.Call) -> str:
        value, kind = node.args
        if isinstance(kind, ast.Name) and kind.id in TYPES and kind.id not in self._globals:
            return f"$is({self._x(value)}, {json.dumps(kind.id)})"
        if isinstance(kind, ast.Name):
            return f"$is({self._x(value)}, {json.dumps(self._whole.need(kind.id, self._global(kind.id)))})"
        raise self._unknown(node)

    def _of_module(self, value: ast.expr, name: str) -> str | None:
        module = self._module(value.id) if isinstance(value, ast.Name) else None
        return None if module is None else self._whole.need(name, getattr(module, name))

    def _module(self, name: str) -> ModuleType | None:
        found = None if name in self._local else self._globals.get(name)
        return found if isinstance(found, ModuleType) and found.__name__.startswith(OURS) else None

    def _global(self, name: str) -> Any:
        if name not in self._globals:
            raise BadInput(f"{self._tree.name}: {name} is nothing that a transform knows.")
        return self._globals[name]

    def _unknown(self, node: ast.AST) -> BadInput:
        line = getattr(node, "lineno", 0)
        return BadInput(f"{self._tree.name}, line {line}: {ast.unparse(node)[:60]!r} cannot be translated.")


def _assigned(tree: ast.FunctionDef) -> set[str]:
    """The names that a function gives values to, besides those of its comprehensions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target) | ast.For(target=target):
                found |= _names(target)
            case ast.NamedExpr(target=ast.Name(id=name)):
                found.add(name)
    return found


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _yields(tree: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield) for node in ast.walk(tree))


def translate(platform: str, arguments: Mapping[str, Any]) -> str:
    """`to_event` of `webhooks/<platform>.py` and all that it needs; `arguments` are what it takes besides the payload.

    Raises BadInput with the place of what cannot be translated.
    """
    module = importlib.import_module(f"webhooks.{platform}")
    whole = Translation()
    name = whole.need("to_event", module.to_event)
    order = list(inspect.signature(module.to_event).parameters)[1:]
    given = ", ".join(literal(arguments[parameter]) for parameter in order)
    events = importlib.import_module("app.events")
    for model in ("MessageReceived", "CommandReceived"):  # what `as_input` makes
        whole.need(model, getattr(events, model))
    whole.need("message_event_id", events.message_event_id)
    return (
        f"{whole.text()}\n\nfunction mapped(payload) {{\n  return {name}(payload{', ' + given if given else ''});\n}}"
    )
