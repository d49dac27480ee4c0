"""Turns meetings into sessions with words, and keeps for every word of gold where it stands.

What a turn leaves out ("it", "the second hall you proposed", no mention of what for) is resolved through other turns;
those become part of the statement, so gold evidence is all that somebody needs who reads nothing else.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from stitchjam.data.worlds.cast import Cast
from stitchjam.data.worlds.dates import say_day
from stitchjam.data.worlds.dials import Dials
from stitchjam.data.worlds.plots import Act
from stitchjam.data.worlds.records import Fact, Place, Reference, SessionGold, Statement, TurnGold
from stitchjam.data.worlds.references import Listener, Speech
from stitchjam.data.worlds.schedule import Meeting, Segment
from stitchjam.data.worlds.sentences import EVENTS, Claimed, Sentence, Speaker
from stitchjam.data.worlds.wording import Text, Wording, fill

__all__ = ["Line", "Teller", "Told"]

_HELPERS = {"tool": ("the assistant", "Assistant"), "trip": ("the travel agent", "Travel agent")}
_PAIRED = {"dialogue": 0.5, "trip": 0.6, "tool": 0.7}  # how often a value answers a question
_REPORTED = ("inform", "feature", "propose")  # what an agent does; the rest its user decides
_LETTER = 4  # acts in a mail, at most
_SIGHT = 0.3  # share of chatter that mentions an option


class Line(NamedTuple):
    """A turn as a program sees it."""

    id: str
    speaker: str
    text: str


class Told(NamedTuple):
    """A session as a program sees it, with its gold."""

    id: str
    time: str
    lines: tuple[Line, ...]
    gold: SessionGold


class Teller:
    """Tells the meetings of a world, one after the other."""

    def __init__(self, name: str, dials: Dials, cast: Cast, wording: Wording):
        self.name = name  # begins the ids of sessions and turns, so that worlds can share a memory
        self.chatter = dials.chatter / (1 - dials.chatter)
        self.cast, self.wording, self.listener = cast, wording, Listener()
        self.dice = Random(f"{dials.seed}/tell")
        self.facts = 0

    def tell(self, meeting: Meeting) -> Told:
        """A meeting in words."""
        session = _Session(self, meeting)
        session.run()
        for segment in meeting.segments:
            if segment.last:
                self.listener.proposals.pop(segment.plot.goal.name, None)
                self.listener.opened.pop(segment.plot.goal.name, None)
        groups = tuple(dict.fromkeys(segment.plot.goal.table["group"] for segment in meeting.segments))
        turns = tuple(session.gold)
        gold = SessionGold(
            id=session.id, day=meeting.time.date(), style=meeting.style, groups=groups or ("small talk",), turns=turns
        )
        return Told(session.id, meeting.time.isoformat(timespec="minutes"), tuple(session.lines), gold)

    def fact(self, claimed: Claimed) -> Fact:
        """A fact with the next id."""
        self.facts += 1
        relation, subject, goal, value, _, voids = claimed
        return Fact(
            id=f"f{self.facts}", relation=relation, subject=subject, goal=goal, value=value, at=self.facts, voids=voids
        )


class _Session:
    """One session while it is told."""

    def __init__(self, teller: Teller, meeting: Meeting):
        self.teller, self.meeting, self.style = teller, meeting, meeting.style
        self.dice, self.wording = teller.dice, teller.wording
        self.speaker = Speaker(teller.wording, teller.listener, teller.dice)
        self.id = f"{teller.name}-s{meeting.number + 1:04}"
        self.today, self.owed = meeting.time.date(), self.dice.random()
        self.lines: list[Line] = []
        self.gold: list[TurnGold] = []
        teller.listener.topic, teller.listener.last, teller.listener.person = ("", ""), None, None
        teller.listener.present = set()

    def run(self) -> None:
        first = self.meeting.segments[0].plot.organiser if self.meeting.segments else self.meeting.team[0]
        self._meet(first)
        if self.style == "notes":
            present = f"Minutes of {say_day(self.today)}. Present: {' and '.join(self.meeting.team)}."
            self._add("Minutes", Text.of(present), "", event=EVENTS["meet"])
        if self.style == "mail" and self.meeting.segments:
            self.meeting.segments[0].acts[:0] = self.meeting.talk
        elif self.style == "mail":
            self._letter(self.meeting.talk, None)
        else:
            for act in self.meeting.talk:
                self._turn(self._cast_in_role(act), "")
                self._chat()
            if not self.meeting.segments:
                self._chat(at_least=3)
        for segment in self.meeting.segments:
            self._meet(segment.plot.organiser)
            (self._letters if self.style == "mail" else self._spoken)(segment)
            self.teller.listener.topic = ("", "")

    def _meet(self, organiser: str) -> None:
        """Who act from here on: as facts call them, and as speakers of turns."""
        partner = next(name for name in self.meeting.team if name != organiser)
        acting, speaking = _HELPERS.get(self.style, (partner, partner))
        names = ("Minutes", "Minutes") if self.style == "notes" else (organiser, speaking)
        self.actors, self.names = (organiser, acting), names
        if self.style in ("mail", *_HELPERS):  # a mail and a request to an agent say who they are for
            self.teller.listener.present |= set(self.actors)

    def _spoken(self, segment: Segment) -> None:
        self._open(segment)
        for act in segment.acts:
            act = self._cast_in_role(act)
            if act.event == "inform" and self.dice.random() < _PAIRED.get(self.style, 0):
                self._answered(act, segment)
            else:
                self._turn(act, segment.plot.goal.name, segment.plot.goal.table["date"])
            self._chat(segment)

    def _cast_in_role(self, act: Act) -> Act:
        """With an agent at hand, the agent reports and the user decides."""
        if self.style not in _HELPERS or act.event == "propose":
            return act
        return Act(act.event, int(act.event in _REPORTED), act.fields)

    def _open(self, segment: Segment) -> None:
        goal = segment.plot.goal.name
        known = self.teller.listener.opened.get(goal, [])
        way = "reopen" if frozenset(self.actors) in known else "join" if known else "open"
        self._turn(Act(way, 0), goal)
        self._opened(goal)

    def _opened(self, goal: str) -> None:
        self.teller.listener.opened.setdefault(goal, []).append(frozenset(self.actors))

    def _speech(self, goal: str, role: int) -> Speech:
        return Speech(self._next(), self.style, goal, self.actors, None if self.style == "notes" else role)

    def _next(self) -> str:
        return f"{self.id}t{len(self.lines) + 1:03}"

    def _turn(self, act: Act, goal: str, happens: str = "") -> None:
        told = self.speaker.tell(act, self._speech(goal, act.role), self.today, happens)
        self._add(self.names[act.role], told.text, "" if act.event in ("trait", "term") else goal, [(told, act, 0)])

    def _answered(self, act: Act, segment: Segment) -> None:
        """A question and the bare value, which is understood through the question."""
        goal, asker = segment.plot.goal.name, 0 if self.style in _HELPERS else 1 - act.role
        names = (self.names[asker], self.names[act.role])
        ask = Act("ask", asker, act.fields)
        if self.style == "tool":
            ask, names = Act("call", 1, act.fields), (self.names[1], "Tool")
        speech = self._speech(goal, ask.role)
        asked = self.speaker.tell(ask, speech, self.today)
        self._add(names[0], asked.text, goal, [(asked, ask, 0)])
        told = self.speaker.answer(act, self._speech(goal, act.role), asked, speech.turn)
        self._add(names[1], told.text, goal, [(told, act, 0)])

    def _letters(self, segment: Segment) -> None:
        """The acts in mails of a few; the two write in turn, and who sends a mail says all that is in it."""
        letters: list[list[Act]] = [[]]
        for act in segment.acts:
            # Nobody puts right in a mail what the same mail says.
            if len(letters[-1]) == _LETTER or any(act.fields.get("of") is one.fields for one in letters[-1]):
                letters.append([])
            letters[-1].append(act)
        for number, acts in enumerate(letters, segment.acts[0].role):
            sent = [Act(act.event, number % 2, act.fields) for act in acts]
            segment.plot.sides |= {act.fields["option"].name: act.role for act in sent if act.event == "propose"}
            self._letter(sent, segment)

    def _letter(self, acts: Sequence[Act], segment: Segment | None) -> None:
        role = acts[0].role if acts else 0
        goal = segment.plot.goal.name if segment else ""
        happens = segment.plot.goal.table["date"] if segment else ""
        speech = self._speech(goal, role)
        ways = self.wording.templates("subject" if goal else "letter", self.style)
        head = f"Subject: {fill(self.dice.choice(ways), {'goal': goal}).plain}\n\nHi {self.actors[1 - role]},\n\n"
        # Only the first mail of a day begins with a greeting of several words.
        text = head if self.lines else f"{head}{self.dice.choice(self.wording['chatter']['mail_open'])} "
        listener = self.teller.listener
        if goal:
            self._opened(goal)
        listener.topic, listener.last, listener.person = (goal, speech.turn), None, None
        told: list[tuple[Sentence, Act, int]] = []
        for act in acts:
            one = self.speaker.tell(act, speech, self.today, happens)
            told.append((one, act, len(text)))
            text += f"{one.text.plain} "
        close = self.dice.choice(self.wording["chatter"]["mail_close"])
        self._add(self.names[role], Text.of(f"{text}{close}\n\n{self.actors[role]}"), goal, told)

    def _add(
        self,
        speaker: str,
        text: Text,
        scope: str,
        told: Sequence[tuple[Sentence, Act, int]] = (),
        event: str = EVENTS["chatter"],
    ) -> None:
        """A turn with its gold. `told` are its sentences with their acts and where they start."""
        turn, plain = self._next(), text.plain
        if speaker in self.names:
            self.teller.listener.present.add(self.actors[self.names.index(speaker)])
        self.lines.append(Line(turn, speaker, plain))
        self.owed += self.teller.chatter if told else -1
        statements: list[Statement] = []
        references: list[Reference] = []
        for one, act, start in told:
            found = [self._statement(one, claimed, turn, start) for claimed in one.claims]
            if "right" in act.fields and found and act.event != "fix":
                self.teller.listener.mistakes[id(act.fields)] = found[0].fact.id
            statements += found
            references += self._references(one, start)
        self.gold.append(
            TurnGold(
                id=turn,
                scope=scope,
                events=tuple(dict.fromkeys(one.event for one, _, _ in told)) or (event,),
                types=tuple(dict.fromkeys(name for one, _, _ in told for name in one.types)),
                references=tuple(references),
                statements=tuple(statements),
            )
        )

    def _statement(self, told: Sentence, claimed: Claimed, turn: str, start: int) -> Statement:
        first, end = told.text.place(claimed.field)
        place = Place(turn=turn, start=start + first, end=start + end, text=told.text.plain[first:end])
        return Statement(fact=self.teller.fact(claimed), place=place, through=tuple(sorted(told.through)))

    def _references(self, told: Sentence, start: int) -> Iterator[Reference]:
        for field, mention in told.mentions.items():
            if mention.words != mention.means:
                first, end = told.text.place(field)
                words, through = told.text.plain[first:end], tuple(sorted(mention.through))
                yield Reference(start=start + first, end=start + end, text=words, means=mention.means, through=through)

    def _chat(self, segment: Segment | None = None, at_least: int = 0) -> None:
        """As much small talk as the dial asks for since the last."""
        self.owed += at_least
        while self.owed >= 1:
            for speaker, words in self._small_talk(segment):
                self._add(speaker, Text.of(words), "")
            self.teller.listener.last = self.teller.listener.person = None

    def _small_talk(self, segment: Segment | None) -> list[tuple[str, str]]:
        pool, role = self.wording["chatter"], 0 if self.style in _HELPERS else self.dice.randrange(2)
        proposed = self.teller.listener.proposals.get(segment.plot.goal.name) if segment else None
        if proposed and self.dice.random() < _SIGHT and self.style not in ("notes", "debate"):
            option = self.dice.choice(proposed).option
            return [(self.names[role], fill(self._draw("sight", pool["sight"]), {"option": option}).plain)]
        if self.style == "notes":
            return [(self.names[0], self._draw("notes", pool["notes"]))]
        listener = next((name for name in self.names if self.lines and name != self.lines[-1].speaker), "")
        if self.style == "debate" and segment:
            return [(listener, self._draw("debate", pool["debate"]))]
        if self.dice.random() < 0.4 and self.lines and (self.style not in _HELPERS or listener == self.names[0]):
            return [(listener, self._draw("single", pool["single"]))]
        table = {"tool": "agent"}.get(self.style, self.style if self.style == "trip" else "pair")
        first, second = self._draw(table, pool[table])
        names = (self.names[1], self.names[0]) if table == "agent" else (self.names[0], self.names[1])
        return [(names[0], first), (names[1], second)]

    def _draw(self, deck: str, lines: list[Any]) -> Any:
        return self.teller.cast.draw(f"chatter/{deck}", lines)
