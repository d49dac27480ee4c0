"""Turns OpenAI-style chat messages into a history, one session per conversation.

Read are a list of messages, a {"messages": [...]} object or a list of these, and jsonlines with one such a line.
Tool calls become text, so that what an agent did can be found like what it said.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Row, dump, file_stem, read_rows
from stitchjam.data.records import History, Session

__all__ = ["read_chat"]

# Parts without words: the kind is kept, the payload (often megabytes of base64) is not.
_MEDIA = {"audio", "file", "image", "image_url", "input_audio", "input_file", "input_image"}


def read_chat(path: str | Path) -> History:
    """Read chat messages.

    Sessions are named by a conversation's "id". Without one they are named by a hash of the first message, with a
    number behind it when several conversations begin alike; a conversation that repeats another completely is read
    once. The speaker is the message's "name" or else its role, "tool:NAME" for results of a named tool; the time is
    "timestamp" or "time" of the message or else of the conversation.

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form; the message names file, line and field.
    """
    sessions: dict[str, Session] = {}
    for conversation in _conversations(path):
        session = _session(conversation, sessions)
        sessions[session.id] = session
    return History(id=file_stem(path), sessions=in_time_order(sessions.values()))


def _conversations(path: str | Path) -> Iterator[Row]:
    for row in read_rows(path):
        if isinstance(row.value, list) and any(isinstance(item, dict) and "messages" in item for item in row.value):
            yield from row.items()
        else:
            yield row


def _session(conversation: Row, known: Mapping[str, Session]) -> Session:
    if isinstance(conversation.value, list):
        conversation = Row(conversation.where, {"messages": conversation.value})
    messages = conversation.part("messages").items()
    if not messages:
        raise conversation.part("messages").fail("at least one message")
    name, time, turns = conversation.label("id", ""), conversation.time("timestamp", "time"), _turns(messages)
    if name in known:
        raise DataError(f"{conversation.where}: the id {name!r} was used before; give each conversation its own id")
    return build_session(name, time, turns) if name else _unnamed(time, turns, known)


def _unnamed(time: str, turns: list[dict[str, str]], known: Mapping[str, Session]) -> Session:
    session = build_session("", time, turns)
    # Conversations of one agent begin with the same system prompt, so the hash of the first turn is often taken.
    name, number = session.id, 1
    while session.id in known and not _same(session, known[session.id]):
        number += 1
        session = build_session(f"{name}-{number}", time, turns)
    return session


def _same(one: Session, other: Session) -> bool:
    return [turn.id for turn in one.turns] == [turn.id for turn in other.turns]


def _turns(messages: tuple[Row, ...]) -> list[dict[str, str]]:
    tools: dict[str, str] = {}
    turns = []
    for message in messages:
        calls = [(call.label("id", ""), *_call(call)) for call in message.entries("tool_calls")]
        if message.part("function_call").value is not None:
            calls.append(("", *_call(message.part("function_call"))))
        tools.update({call_id: name for call_id, name, _ in calls if call_id})
        turns.append(
            {
                "speaker": _speaker(message, tools),
                "text": "\n".join(
                    filter(None, [_content(message), *(f"call {name}({args})" for _, name, args in calls)])
                ),
                "time": message.time("timestamp", "time"),
                "external_id": message.label("id", ""),
            }
        )
    return turns


def _speaker(message: Row, tools: Mapping[str, str]) -> str:
    role, name = message.name("role"), message.label("name", "")
    if role in ("tool", "function"):
        name = name or tools.get(message.label("tool_call_id", ""), "")
        return f"tool:{name}" if name else role
    return name or role


def _call(call: Row) -> tuple[str, str]:
    function = call if call.part("function").value is None else call.part("function")
    arguments = function.part("arguments").value
    return function.name("name"), arguments if isinstance(arguments, str) else dump(arguments or {})


def _content(message: Row) -> str:
    content = message.part("content")
    if content.value is None:
        return message.text("refusal", "")
    if isinstance(content.value, str):
        return content.value
    if not isinstance(content.value, list):
        raise content.fail("text, null or a list of parts")
    return "\n".join(_part(part) for part in content.items())


def _part(part: Row) -> str:
    if isinstance(part.value, str):
        return part.value
    if part.part("text").value is not None:
        return part.text("text")
    kind = part.name("type")
    return f"[{kind}]" if kind in _MEDIA else dump(part.value)
