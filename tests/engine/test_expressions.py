"""CEL with Inngest's answers, row by row (inngest/inngest, pkg/expressions)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.errors import BadExpression
from app.engine.expressions import Expression

_EVENT = {
    "data": {
        "n": 6, "f": 3.5, "zero": 0, "s": "abc", "empty": "", "yes": True, "no": False, "null": None,
        "list": [1, 2, 3], "tags": ["tg", "sl"], "map": {"k": "v"}, "at": "2026-01-02T03:04:05Z",
    },
    "ts": 1_796_000_000_000,
}  # fmt: skip
_NOW_MS = 1_796_000_000_000

_TABLE: list[tuple[str, Any]] = [
    # a missing field is null to == and !=, least to < and <=, never greater
    ("event.data.missing == null", True),
    ("event.data.missing == 'x'", False),
    ("event.data.missing == 0", False),
    ("event.data.missing == event.data.other", False),
    ("event.data.missing != 'x'", True),
    ("event.data.missing != null", False),
    ("event.data.missing != ''", True),
    ("event.data.missing < 5", True),
    ("event.data.missing <= 5", True),
    ("event.data.missing > 5", False),
    ("event.data.missing >= 5", False),
    ("5 < event.data.missing", False),
    ("5 > event.data.missing", True),
    ("event.data.n > event.data.missing", True),
    # it adds nothing, has no size, is in nothing, and other calls on it are false
    ("event.data.missing + 'x'", "x"),
    ("'x' + event.data.missing", "x"),
    ("event.data.a + event.data.b", False),
    ("size(event.data.missing)", 0),
    ("size(event.data.missing) == 0", True),
    ("event.data.missing in ['a', 'b']", False),
    ("event.data.missing.contains('x')", False),
    ("event.data.missing.deep.startsWith('x')", False),
    ("!event.data.missing", False),
    ("has(event.data.missing)", False),
    ("has(event.data.n)", True),
    ("has(event.data.null)", True),
    # null is the zero of the other side's kind
    ("null < 'foo'", True),
    ("'foo' < null", False),
    ("null < 5", True),
    ("5 < null", False),
    ("null > 0", False),
    ("null <= 0", True),
    ("null < 0.5", True),
    ("event.data.f > null", True),
    ("null == 'foo'", False),
    ("null != 'foo'", True),
    # text and numbers add; kinds are not equal to each other
    ("'a' + 3", "a3"),
    ("3 + 'a'", "3a"),
    ("'a' + true", "atrue"),
    ("3 == '3'", False),
    ("3 == 3.0", True),
    ("1 == true", False),
    ("[1, 'a'] == [1, 'a']", True),
    ("{'a': 1} == {'a': 1.0}", True),
    # && and || return the operand, and count truth as JavaScript does
    ("event.data.s || event.data.missing", "abc"),
    ("event.data.empty || 'second'", "second"),
    ("event.data.missing || event.data.s", "abc"),
    ("event.data.zero || 'hi'", "hi"),
    ("null || 'fallback'", "fallback"),
    ("false || event.data.list", [1, 2, 3]),
    ("uint(5) || false", 5),
    ("event.data.s && event.data.n", 6),
    ("event.data.empty && true", ""),
    ("event.data.yes && event.data.no", False),
    ("event.data.no || event.data.yes", True),
    # the rest of the language
    ("event.data.n > 5 && !(event.data.no || event.data.zero == 1)", True),
    ("event.data.n > 5 ? 'big' : 'small'", "big"),
    ("event.data.steers == false ? false : event.data.s", "abc"),
    ("-event.data.n", -6),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 % 4", 3),
    ("7.0 / 2", 3.5),
    ("1 / 0", None),
    ("event['data']['s']", "abc"),
    ("event.data.list[1]", 2),
    ("event.data.list[9]", None),
    ("event.data.map.k", "v"),
    ("'k' in event.data.map", True),
    ("2 in event.data.list", True),
    ("true in [1]", False),
    ("'tg' in event.data.tags", True),
    ("event.data.tags.exists(t, t == 'tg')", True),
    ("event.data.list.all(i, i > 0)", True),
    ("event.data.list.filter(i, i > 1)", [2, 3]),
    ("event.data.list.map(i, i * 2)", [2, 4, 6]),
    ("event.data.list.exists_one(i, i == 2)", True),
    ("size('héé')", 3),
    ("event.data.s.startsWith('a') && event.data.s.endsWith('c')", True),
    ("event.data.s.matches('^a.c$')", True),
    ("'a' < 5", None),
    ("r'a\\d' == 'a\\\\d'", True),
    # Inngest's own functions
    ("lowercase('AbC')", "abc"),
    ("uppercase('AbC')", "ABC"),
    ("b64decode('aGk=')", "hi"),
    ("b64decode('%')", ""),
    ("json_parse('{\"a\": 1}').a", 1),
    ("json_parse('nonsense').a == null", True),
    ("date(event.data.at) < now()", True),
    ("date(event.ts) == now()", True),
    ("now_plus('1h') > now() && now_minus('1h') < now()", True),
    ("date('2026-01-01') + duration('24h') == date('2026-01-02')", True),
    ("string(5) + '!'", "5!"),
    ("int('5') + double('0.5')", 5.5),
]


@pytest.mark.parametrize(("source", "expected"), _TABLE, ids=[source for source, _ in _TABLE])
def test_table(source: str, expected: Any) -> None:
    value = Expression.compile(source).evaluate({"event": _EVENT}, _NOW_MS)

    assert value == expected
    assert type(value) is type(expected)


def test_two_events() -> None:
    condition = Expression.compile("event.data.id == async.data.id")

    assert condition.test({"event": {"data": {"id": 7}}, "async": {"data": {"id": 7}}})
    assert not condition.test({"event": {"data": {"id": 7}}, "async": {"data": {"id": 8}}})
    assert not condition.test({"event": {"data": {}}, "async": {"data": {}}}), "two missing fields are not equal"


def test_times_leave_as_text() -> None:
    value = Expression.compile("now()").evaluate({}, _NOW_MS)

    assert value == datetime.fromtimestamp(_NOW_MS / 1000, UTC).isoformat()


_BAD = ["", "a ==", "nothing(1)", "event.data.nothing(1)", "a b", "'open", "x{a: 1}", "(" * 400]


@pytest.mark.parametrize("source", _BAD)
def test_bad_expressions_name_the_reason(source: str) -> None:
    with pytest.raises(BadExpression, match="is not accepted"):
        Expression.compile(source)


_NAMES = st.sampled_from(["a", "b", "n", "s", "list", "tags", "map"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(source=st.sampled_from([source for source, _ in _TABLE]), data=_JSON)
def test_evaluating_never_raises(source: str, data: Any) -> None:
    Expression.compile(source).evaluate({"event": {"data": data}, "async": data}, _NOW_MS)
