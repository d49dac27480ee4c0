"""The nouns of the Memorizer: the memo of a session, and what is written about a folder (JAM section 1)."""

from stitchjam.data.records import Record, Span

__all__ = ["Dated", "Fact", "Memo", "Readme"]


class Dated(Record):
    """A date that a session speaks of: the words it uses, the day or month meant (ISO 8601), and where they stand."""

    phrase: str
    date: str
    span: Span


class Fact(Record):
    """One thing that a session settles or tells, and the turn that does."""

    text: str
    span: Span


class Memo(Record):
    """What a session is about, in a few lines; it leads to the session and is no evidence.

    `seen` are ids of the sessions whose memos were shown to the model that wrote this one; `skipped` counts parts of a
    long session that it does not speak of, since the model's replies to them could not be used.
    """

    session_id: str
    title: str
    gist: str
    entities: tuple[str, ...] = ()
    dates: tuple[Dated, ...] = ()
    facts: tuple[Fact, ...] = ()
    time: str = ""
    seen: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def topic(self) -> str:
        """The words by which it is filed."""
        return ". ".join(filter(None, (self.title, self.gist, ", ".join(self.entities))))

    @property
    def text(self) -> str:
        """All its words."""
        said = (*(fact.text for fact in self.facts), *(f"{one.phrase} {one.date}" for one in self.dates))
        return ". ".join([self.topic, *said])


class Readme(Record):
    """What is written about a folder: its name, what it is for, and a summary of what lies below it.

    `members` are ids of what lay in it when it was named, `digest` the hash of what the summary was written of; an
    `error` says why one of both could not be written, so that it is tried again.
    """

    folder: str
    name: str = ""
    about: str = ""
    summary: str = ""
    members: tuple[str, ...] = ()
    digest: str = ""
    error: str = ""
