"""Pruning at its borders: the figures of the two layers, and what each level of shrinking leaves."""

from typing import Any

import pytest

from app.agent.context.pruning import CLEARED, HARD_CLEAR_OVER_CHARS, SOFT_TRIM_OVER_CHARS, prune, shrink, size

Message = dict[str, Any]


def user(text: str = "go") -> Message:
    return {"role": "user", "content": text}


def unit(result: str, number: int = 0, arguments: str = "{}", text: str | None = None) -> list[Message]:
    """An assistant turn with one call and its result."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}
    return [
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": result},
    ]


def three_turns() -> list[Message]:
    return [message for number in range(90, 93) for message in unit("recent", number)]


def old(result: str) -> str:
    """What pruning leaves of a result that three newer turns follow."""
    return str(prune([user(), *unit(result), *three_turns()])[2]["content"])


def test_the_figures() -> None:
    assert (SOFT_TRIM_OVER_CHARS, HARD_CLEAR_OVER_CHARS, CLEARED) == (4_000, 50_000, "[Tool result cleared]")


def test_a_result_of_4000_characters_stays() -> None:
    assert old("x" * 4_000) == "x" * 4_000


def test_a_result_of_4001_characters_keeps_its_first_and_last_1500() -> None:
    text = "a" * 1_500 + "b" * 1_001 + "c" * 1_500
    trimmed = old(text)
    assert len(text) == 4_001
    assert trimmed.startswith("a" * 1_500 + "\n[") and trimmed.endswith("]\n" + "c" * 1_500)
    assert "b" not in trimmed.replace("1001 characters", "") and "1001 characters left out" in trimmed


def test_the_last_three_assistant_turns_and_their_results_stay_whole() -> None:
    huge = [unit(str(number) * 20_000, number) for number in range(5)]
    messages = [user(), *(message for one in huge for message in one)]
    contents = [m["content"] for m in prune(messages) if m["role"] == "tool"]
    assert contents[2:] == [str(number) * 20_000 for number in (2, 3, 4)]
    assert contents[:2] == [CLEARED, CLEARED]


def test_with_three_turns_or_fewer_nothing_is_touched() -> None:
    messages = [user(), *(message for number in range(3) for message in unit("x" * 30_000, number))]
    assert prune(messages) == messages
    assert prune([user("x" * 90_000)]) == [user("x" * 90_000)]


def filled(total: int) -> list[Message]:
    """Messages of exactly `total` characters, one old result of 1,000 among them."""
    head = [*unit("o" * 1_000, 1), *three_turns()]
    return [user("u" * (total - size(head))), *head]


def test_exactly_50000_characters_are_not_cleared() -> None:
    messages = filled(50_000)
    assert size(messages) == 50_000
    assert prune(messages) == messages


def test_50001_characters_clear_the_old_results_and_nothing_else() -> None:
    messages = filled(50_001)
    pruned = prune(messages)
    assert [m["content"] for m in pruned if m["role"] == "tool"] == [CLEARED, "recent", "recent", "recent"]
    assert [m for m in pruned if m["role"] != "tool"] == [m for m in messages if m["role"] != "tool"]


def test_the_system_prompt_does_not_count() -> None:
    messages = [{"role": "system", "content": "s" * 60_000}, *filled(50_000)]
    assert size(messages) == 50_000
    assert prune(messages) == messages


def test_what_the_soft_trim_frees_counts() -> None:
    """Over the limit as it came, under it once the old result is trimmed: nothing is cleared."""
    messages = [user(), *unit("o" * 60_000, 1), *three_turns()]
    pruned = prune(messages)
    assert size(messages) > 50_000 > size(pruned)
    assert "57000 characters left out" in pruned[2]["content"]


def test_arguments_and_words_beside_calls_count() -> None:
    assert size([user("four"), *unit("six666", arguments="{}  ", text="two")]) == 4 + 6 + 4 + 3


def test_only_results_are_trimmed() -> None:
    long = "x" * 9_000
    messages = [user(long), {"role": "assistant", "content": long}, *three_turns()]
    assert prune(messages) == messages


def test_pruning_changes_no_message_in_place() -> None:
    messages = [user(), *unit("o" * 60_000, 1), *three_turns()]
    copies = [dict(m) for m in messages]
    prune(messages)
    shrink(messages, 4)
    assert messages == copies


def conversation() -> list[Message]:
    """Four questions, each with two calls and an answer."""
    found: list[Message] = []
    for number in range(4):
        found += [user(f"question {number}"), *unit("r" * 5_000, 2 * number), *unit("r" * 5_000, 2 * number + 1)]
        found.append({"role": "assistant", "content": f"answer {number}"})
    return found[:-1]


def tools(messages: list[Message]) -> list[int]:
    return [len(m["content"]) for m in messages if m["role"] == "tool"]


def test_level_0_leaves_everything() -> None:
    assert shrink(conversation(), 0) == conversation()


def test_level_1_clears_every_result_before_the_last_turn() -> None:
    assert tools(shrink(conversation(), 1)) == [len(CLEARED)] * 7 + [5_000]


def test_level_2_also_trims_the_newest_result() -> None:
    (*_, newest) = tools(shrink(conversation(), 2))
    assert newest < 3_100


@pytest.mark.parametrize("level", [3, 4, 5, 6, 7])
def test_from_level_3_on_older_halves_go_and_the_newest_question_stays(level: int) -> None:
    shrunk = shrink(conversation(), level)
    assert shrunk[0]["role"] == "user" and len(shrunk) < len(shrink(conversation(), 2))
    assert [m["content"] for m in shrunk if m["role"] == "user"][-1] == "question 3"
    assert len(shrink(conversation(), level)) <= len(shrink(conversation(), level - 1))


def test_a_long_turn_behind_the_newest_question_is_shortened_too() -> None:
    """One question, then a hundred long calls: nothing before the question is left to drop."""
    long = "x" * 2_000
    messages = [user("the question"), *(m for number in range(100) for m in unit("r", number, arguments=long))]
    sizes = [size(shrink(messages, level)) for level in range(7)]
    assert sizes[2] > 200_000 > 20_000 > sizes[6]
    for level in range(12):
        shrunk = shrink(messages, level)
        calls = [c["id"] for m in shrunk for c in m.get("tool_calls", ())]
        assert shrunk[0] == user("the question")
        assert calls == [m["tool_call_id"] for m in shrunk if m["role"] == "tool"] and calls[-1] == "c99"


def test_what_cannot_be_shortened_stays() -> None:
    assert shrink([], 5) == []
    assert shrink([user("only")], 9) == [user("only")]
    assert shrink([user(), *unit("r")], 9) == [user(), *unit("r")]
    assert shrink([{"role": "assistant", "content": "a"}], 9) == [{"role": "assistant", "content": "a"}]
