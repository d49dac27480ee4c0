"""Turns OpenAI-style chat messages into a history, one session per conversation.

Read are a list of messages, a {"messages": [...]} object or a list of these, and jsonlines with one such a line; in
place of {"messages"} also the log of a call, {"request": {"messages"}, "response": {"choices": [{"message"}]}}.
Tool calls become text, so that what an agent did can be found like what it said.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from stitchjam.data.errors import DataError
from stitchjam.data.ids import build_session, in_time_order
from stitchjam.data.readers.rows import Row, dump, read_rows
from stitchjam.data.readers.source import Origin, Source
from stitchjam.data.records import History, Session

__all__ = ["message_rows", "read_chat"]

_TALK = {"messages", "request"}

# Parts without words: the kind is kept, the payload (often megabytes of base64) is not.
_MEDIA = {"audio", "file", "image", "image_url", "input_audio", "input_file", "input_image"}


def read_chat(path: Origin) -> History:
    """Read chat messages.

    Sessions are named by a conversation's "id". Without one they are named by a hash of the first message, with a
    number behind it when several conversations begin alike. One without an id that goes on where another ended, as
    call after call of an agent does in a log, is the same session. The speaker is the message's "name" or else its
    role, "tool:NAME" for results of a named tool; the time is "timestamp" or "time" of the message or else of the
    conversation, that of a reply in a log "created".

    Raises:
        UsageError: the file cannot be opened.
        DataError: it is not of this form; the message names file, line and field.
    """
    source = Source.of(path)
    sessions: dict[str, Session] = {}
    for conversation in _conversations(source):
        session = _session(conversation, sessions)
        sessions[session.id] = session
    return History(id=source.stem, sessions=in_time_order(sessions.values()))


def message_rows(messages: Iterable[Row]) -> list[dict[str, str]]:
    """Rows for `build_session` of messages; what an agent called stands behind what it said."""
    tools: dict[str, str] = {}
    return [_turn(message, tools) for message in messages]


def _conversations(source: Source) -> Iterator[Row]:
    alone: list[Row] = []  # messages that stand on lines of their own are one conversation
    for row in read_rows(source):
        if isinstance(row.value, dict) and "role" in row.value:
            alone.append(row)
        elif isinstance(row.value, list) and any(isinstance(item, dict) and _TALK & item.keys() for item in row.value):
            yield from row.items()
        else:
            yield row
    if alone:
        yield Row(alone[0].where, {"messages": [row.value for row in alone]})


def _session(conversation: Row, known: Mapping[str, Session]) -> Session:
    if isinstance(conversation.value, list):
        conversation = Row(conversation.where, {"messages": conversation.value})
    if conversation.part("request").value is not None or _choices(conversation):
        return _unnamed("", _logged(conversation), known)
    name, time = conversation.label("id", ""), conversation.time("timestamp", "time")
    rows = message_rows(_messages(conversation))
    if name in known:
        raise DataError(f"{conversation.where}: the id {name!r} was used before; give each conversation its own id")
    return build_session(name, time, rows) if name else _unnamed(time, rows, known)


def _messages(conversation: Row) -> tuple[Row, ...]:
    messages = conversation.part("messages")
    if not messages.items():
        raise messages.fail("at least one message")
    return messages.items()


def _logged(call: Row) -> list[dict[str, str]]:
    """Rows of a logged call; its id and time are those of its reply, for the messages were sent before as well."""
    sent = _messages(call if call.part("request").value is None else call.part("request"))
    rows = message_rows([*sent, *(choice.part("message") for choice in _choices(call))])
    if _choices(call) and not rows[-1]["time"]:
        rows[-1]["time"] = call.part("response").time("created") or call.time("timestamp", "time")
    return rows


def _choices(call: Row) -> tuple[Row, ...]:
    response = call.part("response")
    return response.entries("choices")[:1] if isinstance(response.value, dict) else ()


def _unnamed(time: str, rows: list[dict[str, str]], known: Mapping[str, Session]) -> Session:
    # Conversations of one agent begin with the same system prompt, so the hash of the first turn is often taken.
    first = build_session("", time, rows[:1]).id
    names = (first if number == 1 else f"{first}-{number}" for number in count(1))
    name = next(name for name in names if name not in known or _agree(rows, known[name]))
    if name not in known:
        return build_session(name, time, rows)
    old = known[name].turns
    if len(rows) <= len(old):
        return known[name]
    timed = [{**row, "time": row["time"] or turn.time} for row, turn in zip(rows, old, strict=False)]
    return build_session(name, time, timed + rows[len(old) :])


def _agree(rows: list[dict[str, str]], session: Session) -> bool:
    """Whether one of them goes on where the other ends."""
    pairs = zip(rows, session.turns, strict=False)
    return all((row["speaker"], row["text"]) == (turn.speaker, turn.text) for row, turn in pairs)


def _turn(message: Row, tools: dict[str, str]) -> dict[str, str]:
    """The row of a message; `tools` maps the ids of the calls so far to the names of their tools, and is added to."""
    calls = [(call.label("id", ""), *_call(call)) for call in message.entries("tool_calls")]
    if message.part("function_call").value is not None:
        calls.append(("", *_call(message.part("function_call"))))
    tools.update({call_id: name for call_id, name, _ in calls if call_id})
    said = [_content(message), *(f"call {name}({arguments})" for _, name, arguments in calls)]
    return {
        "speaker": _speaker(message, tools),
        "text": "\n".join(filter(None, said)),
        "time": message.time("timestamp", "time"),
        "external_id": message.label("id", ""),
    }


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
