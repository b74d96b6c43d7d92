"""Fetched bytes as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.document import Body, document


def text_of(data: bytes | str, content_type: str = "") -> str:
    return document(Body(data.encode() if isinstance(data, str) else data, content_type, "https://site.test/a/"))


def test_html_is_known_by_its_type_or_its_start() -> None:
    assert text_of("<p>a<b>b</b></p>", "text/html") == "a**b**"
    assert text_of("<!-- hi --> <!DOCTYPE html><p>x</p>", "text/plain") == "x"
    assert text_of("<p>x</p>", "text/plain") == "<p>x</p>"


def test_text_and_json_stay_as_they_are() -> None:
    assert text_of('{"a": [1]}', "application/json") == '{"a": [1]}'
    assert text_of("# title\n\n<b>kept</b>", "text/markdown") == "# title\n\n<b>kept</b>"
    assert text_of(" \n", "text/plain") == "(no readable text)"


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
        ("<meta charset=windows-1252><p>é".encode("cp1252"), "text/html"),
        ("\ufeffé".encode("utf-16-be"), "text/plain"),
        ("\ufeffé".encode(), "text/plain; charset=latin-1"),
        ("é".encode(), "text/plain; charset=rot13"),
        ("é".encode(), "text/plain; charset=iso-8859-99"),
    ],
)
def test_the_character_set_is_found(data: bytes, content_type: str) -> None:
    assert text_of(data, content_type) == "é"


def test_pictures_in_the_page_are_left_out() -> None:
    assert text_of("<p><img alt=x src='data:image/png;base64,AAAA'></p>", "text/html") == "![x](data:...)"


def test_very_deep_pages_do_no_harm() -> None:
    assert isinstance(text_of("<div><ul><li>" * 100_000 + "x", "text/html"), str)


def test_other_content_is_described() -> None:
    assert text_of(b"\x89PNG\r\n\x1a\n", "image/png") == "(not text: a PNG image, sent as image/png; 8 bytes looked at)"


@given(
    st.binary(max_size=400), st.sampled_from(["", "text/html", "text/plain; charset=utf-16", "text/html; charset=hz"])
)
def test_any_bytes_become_clean_text(data: bytes, content_type: str) -> None:
    text = text_of(data, content_type)
    text.encode()
    assert "\0" not in text and "\x1b" not in text
