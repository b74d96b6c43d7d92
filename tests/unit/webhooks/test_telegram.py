import json

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from app.events import Attachment, CommandReceived, Destination, MessageReceived, Sender
from webhooks.telegram import parse, telegram_router, to_event, verify
from webhooks.telegram_said import Bot

SECRET = "s3cret"
USER = {"id": 5, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada", "language_code": "fr"}


def update(text="hello", *, chat_id=42, message_id=7, kind="message", chat_type="private", **message):
    chat = {"id": chat_id, "type": chat_type}
    body = {"message_id": message_id, "date": 1767614400, "chat": chat, "from": USER, "text": text} | message
    return {"update_id": 1, kind: {name: value for name, value in body.items() if value is not None}}


def event_of(*args, **kwargs):
    return to_event(update(*args, **kwargs), bot=Bot("123", "moab_bot"))


def test_a_text_is_a_message():
    assert event_of() == MessageReceived(
        message="hello",
        message_key="telegram:123:42:7",
        session_key="telegram:123:42",
        channel="telegram",
        sender=Sender(id="5", name="Ada L", username="ada"),
        destination=Destination(chat_id="42", message_id="7"),
        channel_meta={"chatType": "private", "languageCode": "fr"},
        sent_at="2026-01-05T12:00:00+00:00",
    )


# The way in: event id built from the message number alone: two chats collide -> id from platform, bot, chat, message.
def test_the_key_of_a_message_names_bot_and_chat():
    keys = {to_event(update(chat_id=chat), bot=Bot(bot)).message_key for chat in (1, 2) for bot in ("123", "456")}
    assert len(keys) == 4


# The way in: forum topics share one memory -> topic is part of the session key and of the destination.
def test_a_topic_is_a_session_of_its_own():
    topic = event_of("/help", chat_id=-1001, chat_type="supergroup", message_thread_id=3, is_topic_message=True)
    assert (topic.session_key, topic.destination.thread_id) == ("telegram:123:-1001:3", "3")
    replies = event_of("/help", chat_id=-1001, chat_type="supergroup", message_thread_id=3)
    assert (replies.session_key, replies.destination.thread_id) == ("telegram:123:-1001", None)


@pytest.mark.parametrize(
    ("text", "command", "args"), [("/new", "new", ""), ("/Model@moab_bot gpt-5 now", "model", "gpt-5 now")]
)
def test_a_slash_makes_a_command(text, command, args):
    event = event_of(text)
    assert isinstance(event, CommandReceived)
    assert (event.command, event.args, event.message_key) == (command, args, "telegram:123:42:7")


def test_a_path_is_not_a_command():
    assert isinstance(event_of("/etc/hosts is a file"), MessageReceived)


# The way in: edited message runs a command again -> edits never run commands.
@pytest.mark.parametrize("text", ["/stop", "hello"])
def test_an_edit_is_a_change_of_its_message_and_never_a_command(text):
    edited = event_of(text, kind="edited_message", edit_date=1767614460)
    assert isinstance(edited, MessageReceived)
    assert (edited.message, edited.edited, edited.message_key) == (text, "1767614460", event_of().message_key)
    assert edited.sent_at == event_of().sent_at and edited.session_key == event_of().session_key
    assert event_of().edited is None


def test_a_forwarded_command_is_a_message():
    assert isinstance(
        event_of("/stop", forward_origin={"type": "hidden_user", "sender_user_name": "Bo"}), MessageReceived
    )


@pytest.mark.parametrize("kind", ["message", "channel_post", "edited_message", "edited_channel_post"])
@pytest.mark.parametrize("chat_type", ["group", "supergroup", "channel"])
def test_where_many_speak_only_what_is_meant_for_the_bot_counts(kind, chat_type):
    """The way in: the bot answers the whole thread after one mention -> mention gating per channel."""

    def heard(text, **more):
        return event_of(text, chat_id=-5, chat_type=chat_type, kind=kind, **more) is not None

    bot, other = {"id": 123, "is_bot": True}, {"id": 9, "is_bot": False, "first_name": "Bo"}
    assert not heard("hello all") and not heard("mail@moab_bot.example") and not heard("@moab_bots look")
    assert not heard("I agree", reply_to_message={"message_id": 6, "from": other, "text": "so it is"})
    assert not heard("in the topic", reply_to_message={"message_id": 6, "from": bot, "forum_topic_created": {}})
    assert heard("@Moab_bot hello") and heard("what does @moab_bot say?")
    assert heard("I agree", reply_to_message={"message_id": 6, "from": bot, "text": "so it is"})
    assert heard("/stop") and heard("/stop@moab_bot")
    assert heard("you there", entities=[{"type": "text_mention", "offset": 0, "length": 3, "user": bot}])


def test_a_command_for_another_bot_is_nothing():
    assert event_of("/stop@other_bot", chat_id=-5, chat_type="group") is None


def test_a_command_of_a_group_that_names_no_bot_says_so():
    group = {"chat_id": -5, "chat_type": "group"}
    assert event_of("/roll 6", **group).channel_meta["unnamed"] is True
    for named in (event_of("/roll@moab_bot 6", **group), event_of("@moab_bot /roll 6", **group), event_of("/roll 6")):
        assert "unnamed" not in named.channel_meta


def test_the_name_in_front_only_says_who_is_meant():
    event = event_of("@moab_bot, /status", chat_id=-5, chat_type="group")
    assert isinstance(event, CommandReceived) and event.command == "status"


def test_what_moves_on_a_map_is_told_once():
    place = {"latitude": 48.85, "longitude": 2.35, "live_period": 900}
    assert event_of(None, location=place).message == "Location (live): 48.85, 2.35"
    assert event_of(None, location=place, kind="edited_message", edit_date=1767614460) is None


# The way in: two bots answer each other for ever -> bots ignored.
def test_bots_are_ignored():
    assert event_of(**{"from": USER | {"is_bot": True}}) is None


# The way in: voice goes to speech-to-text, audio and documents are files; the model never gets a placeholder.
@pytest.mark.parametrize("kind", ["voice", "audio", "video", "document", "video_note"])
def test_files_keep_their_kind_and_add_no_words(kind):
    file = {"file_id": "F1", "file_name": "a.bin", "mime_type": "x/y", "file_size": 9}
    event = event_of(None, **{kind: file})
    assert event.message == ""
    assert event.attachments == (Attachment(kind=kind, ref="F1", name="a.bin", mime="x/y", size=9),)


def test_the_largest_photo_comes_with_its_caption():
    sizes = [
        {"file_id": name, "width": w, "height": w, "file_size": w} for name, w in (("S", 90), ("L", 900), ("M", 300))
    ]
    event = event_of(None, photo=sizes, caption="look", media_group_id="g1")
    assert (event.message, event.attachments[0].ref, event.attachments[0].kind) == ("look", "L", "photo")
    # The way in: album of N photos becomes N turns -> the album's id travels along, so that it can be gathered.
    assert event.channel_meta["mediaGroupId"] == "g1"


def test_a_file_of_another_chat_that_is_answered_comes_along_as_quoted():
    photo = {"origin": {"type": "hidden_user", "sender_user_name": "Bo"}, "photo": [{"file_id": "P", "width": 9}]}
    [attachment] = event_of("what is this?", external_reply=photo).attachments
    assert (attachment.ref, attachment.quoted) == ("P", True)


def test_a_command_with_a_file_of_its_own_is_a_message():
    assert isinstance(event_of(None, caption="/stop", photo=[{"file_id": "P", "width": 9}]), MessageReceived)


def test_an_animation_is_one_file():
    file = {"file_id": "A", "mime_type": "video/mp4"}
    assert [a.kind for a in event_of(None, animation=file, document=file).attachments] == ["animation"]


def test_a_message_of_a_group_says_so():
    event = event_of("@moab_bot hi", chat_id=-5, chat_type="group", reply_to_message={"message_id": 6})
    group = {"chatType": "group", "group": True}
    assert event.channel_meta == group | {"languageCode": "fr", "replyToMessageId": "6"}


@pytest.mark.parametrize(
    "junk",
    [
        {},
        {"update_id": 1, "poll": {}},
        {"message": None},
        {"message": {"text": "x"}},
        {"message": {"message_id": 1, "chat": "here", "text": "x"}},
        update(None, new_chat_members=[USER]),
        update("  "),
        update(None, photo=[{}], document={"file_id": 3}),
    ],
)
def test_junk_is_nothing(junk):
    assert to_event(junk, bot=Bot("123", "moab_bot")) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = [
    "message_id",
    "chat",
    "from",
    "text",
    "caption",
    "date",
    "photo",
    "voice",
    "is_topic_message",
    "message_thread_id",
]


@settings(deadline=None)
@given(st.fixed_dictionaries({}, optional={name: JSON for name in NAMES}), st.booleans())
def test_any_update_is_an_event_or_nothing(fields, whole):
    message = (update()["message"] | fields) if whole else fields
    event = to_event(parse(json.dumps({"message": message}).encode()), bot=Bot("1"))
    assert event is None or event.to_wire("id")["data"]["sessionKey"].startswith("telegram:1:")


@pytest.mark.parametrize(
    ("headers", "secret", "right"),
    [
        ({"X-Telegram-Bot-Api-Secret-Token": SECRET}, SECRET, True),
        ({"x-telegram-bot-api-secret-token": SECRET}, SECRET, True),
        ({"X-Telegram-Bot-Api-Secret-Token": "other"}, SECRET, False),
        ({"X-Telegram-Bot-Api-Secret-Token": "é"}, SECRET, False),
        ({}, SECRET, False),
        ({}, "", False),
        ({"X-Telegram-Bot-Api-Secret-Token": ""}, "", False),
    ],
)
def test_the_secret_is_required(headers, secret, right):
    assert verify(headers, secret) is right


class Service:
    """The route in an application, with an `accept` that records or fails."""

    def __init__(self):
        self.accepted = []
        self.fault = None
        self.bot = Bot("123", "moab_bot")
        self.lets_in = True
        self.app = FastAPI()
        router = telegram_router(self.accept, secret=SECRET, who=lambda: self.bot)
        self.app.include_router(router)

    async def accept(self, event):
        if self.fault:
            raise self.fault
        self.accepted.append(event)
        return self.lets_in

    async def post(self, body, secret=SECRET):
        headers = {"x-telegram-bot-api-secret-token": secret} if secret else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://moab") as client:
            return await client.post("/webhooks/telegram", content=content, headers=headers)


async def test_a_message_is_accepted_before_the_answer():
    service = Service()
    response = await service.post(update())
    assert (response.status_code, response.json()) == (200, {})
    assert [event.message for event in service.accepted] == ["hello"]


async def test_a_group_is_heard_again_once_the_bot_knows_its_name():
    service = Service()
    service.bot = Bot("123")
    in_group = update("@moab_bot hello", chat_id=-5, chat_type="supergroup")
    assert (await service.post(in_group)).status_code == 503 and service.accepted == []
    assert (await service.post(update())).status_code == 200
    service.bot = Bot("123", "moab_bot")
    assert (await service.post(in_group)).status_code == 200 and len(service.accepted) == 2


@pytest.mark.parametrize("secret", [None, "wrong"])
async def test_without_the_secret_nothing_is_read(secret):
    service = Service()
    assert (await service.post(b"{", secret)).status_code == 403
    assert service.accepted == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b" " * (2**20 + 1), "larger than"),
    ],
)
async def test_a_body_that_is_no_update_is_refused_in_a_sentence(body, words):
    response = await Service().post(body)
    assert response.status_code == 400
    assert words in response.json()["error"] and "Traceback" not in response.text


async def test_updates_of_unknown_kinds_are_taken_off_telegrams_queue():
    service = Service()
    assert (await service.post({"update_id": 1, "something_new": {}})).status_code == 200
    assert service.accepted == []


# The way in: acknowledge to the platform only after the event is durable.
async def test_a_message_that_could_not_be_stored_is_asked_for_again(caplog):
    service = Service()
    service.fault = OSError("disk full at /secret/path")
    response = await service.post(update())
    assert response.status_code == 500
    assert "again" in response.json()["error"] and "disk" not in response.text
    service.fault = None
    assert (await service.post(update())).status_code == 200
    assert len(service.accepted) == 1


def pressed(data="approve K3F9", **changes):
    message = {"message_id": 9, "chat": {"id": 42, "type": "private"}, "from": {"id": 1, "is_bot": True}}
    query = {"id": "8800", "from": USER, "message": message, "data": data} | changes
    return {"update_id": 2, "callback_query": query}


def test_a_button_is_the_command_it_stands_for_of_who_pressed_it():
    event = to_event(pressed("answer K3F9 2"), bot=Bot("123", "moab_bot"))
    assert isinstance(event, CommandReceived)
    assert (event.command, event.args, event.sender.id) == ("answer", "K3F9 2", "5")
    assert event.message_key == "telegram:123:42:pressed:8800" and event.session_key == "telegram:123:42"
    assert event.destination == Destination(chat_id="42", message_id="9")


def test_a_button_in_a_topic_belongs_to_the_topic():
    chat = {"id": -1001, "type": "supergroup"}
    message = {"message_id": 9, "chat": chat, "message_thread_id": 3, "is_topic_message": True}
    event = to_event(pressed(message=message), bot=Bot("123", "moab_bot"))
    assert (event.session_key, event.destination.thread_id) == ("telegram:123:-1001:3", "3")


@pytest.mark.parametrize(
    "query", [{"data": "stop"}, {"data": ""}, {"data": None}, {"message": None}, {"id": None}, {"from": None}]
)
def test_no_other_button_is_anything(query):
    assert to_event(pressed(**query), bot=Bot("123", "moab_bot")) is None


async def test_a_button_stops_waiting_at_once():
    service = Service()
    answer = await service.post(pressed())
    assert answer.json() == {"method": "answerCallbackQuery", "callback_query_id": "8800"}
    assert [event.command for event in service.accepted] == ["approve"]


async def test_a_button_of_another_time_explains_itself_in_the_language_of_who_pressed_it():
    service = Service()
    answer = (await service.post(pressed(data="vote 3"))).json()
    assert answer == {
        "method": "answerCallbackQuery",
        "callback_query_id": "8800",
        "text": "Ce bouton date d'un autre moment et ne fait plus rien.",
    }
    assert service.accepted == []


async def test_a_button_tells_who_is_not_let_in_why_nothing_happens():
    service = Service()
    service.lets_in = False
    answer = (await service.post(pressed())).json()
    assert answer["method"] == "answerCallbackQuery" and "personnes invitées" in answer["text"]
