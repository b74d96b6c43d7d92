"""Cleaning and capping at the tool boundary."""

from hypothesis import example, given
from hypothesis import strategies as st

from app.agent.output import cap, clean, whole_characters

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)
terminal_text = st.lists(
    st.sampled_from(
        ["\x1b", "[", "]", "0", ";", "m", "K", "\x07", "\\", "P", "\r", "\n", "\b", "a", "\0", "\x9b", "é"]
    ),
    max_size=40,
).map("".join)


# TRAPS, Context: "280 KB tool output, ANSI screens, a PDF read as text fill the window in one step".
def test_ansi_screens_become_plain_text() -> None:
    screen = "\x1b[2J\x1b[H\x1b[1;31mFAIL\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \x1b(Bdone\x1bP1;2q~~\x1b\\!"
    assert clean(screen) == "FAIL link done!"


def test_a_progress_bar_keeps_its_last_state() -> None:
    assert clean("get  1%\rget 50%\rget 100%\r\nready\r") == "get 100%\nready"


def test_overstruck_words_and_spinners_are_settled() -> None:
    assert clean("N\bNA\bAM\bME\bE |\b/\b-\bok") == "NAME ok"


def test_nuls_and_lone_surrogates_do_not_pass() -> None:
    assert clean("a\0b\ud800c\x7f\x85d\te\n") == "ab\ufffdcd\te\n"


@given(st.one_of(any_text, terminal_text))
@example("\x1b\x1b[0m[31m")
@example("\x1b]8;;never ended")
def test_clean_takes_everything_and_is_stable(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    cleaned.encode()
    assert not any(ord(c) < 32 and c not in "\t\n" for c in cleaned)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_clean_leaves_printed_text_alone(text: str) -> None:
    assert clean(text) == text


def test_280_kilobytes_are_cut_to_head_and_tail() -> None:
    text = "".join(f"line {n}\n" for n in range(30_000))
    capped = cap(text, artifact="artifacts/run1.txt")
    assert capped.was_cut
    assert len(capped.text.encode()) <= 16_384
    assert capped.text.startswith("line 0\n") and capped.text.endswith("line 29999\n")
    assert "bytes left out here; the whole is in artifacts/run1.txt" in capped.text


def test_the_line_counts_what_is_missing() -> None:
    capped = cap("a" * 1000, 200)
    left_out = int(capped.text.split("[... ")[1].split(" ")[0])
    assert capped.text.count("a", 0, capped.text.index("[")) + len(capped.text.split("]\n")[1]) + left_out == 1000


@given(any_text, st.integers(-5, 400), st.one_of(st.none(), st.text(max_size=40)))
def test_cap_is_total_and_keeps_the_limit(text: str, limit: int, artifact: str | None) -> None:
    try:
        (artifact or "").encode()
    except UnicodeEncodeError:
        artifact = None
    capped = cap(text, limit, artifact)
    size = len(text.encode(errors="surrogatepass"))
    assert len(capped.text.encode()) <= max(0, limit)
    assert capped.was_cut == (size > limit)
    assert "\ufffd" not in capped.text or "\ufffd" in text or any("\ud800" <= c <= "\udfff" for c in text)


@given(st.text(max_size=60), st.integers(0, 200), st.integers(0, 200))
def test_a_slice_never_splits_a_character(text: str, start: int, end: int) -> None:
    assert whole_characters(text.encode()[start:end]) in text
