"""Turns one act into a sentence: its words, the facts they state, and the turns that resolve what they leave out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import NamedTuple

from stitchjam.data.worlds.cast import Option
from stitchjam.data.worlds.dates import date_phrases, say_day
from stitchjam.data.worlds.plots import Act
from stitchjam.data.worlds.records import session_of
from stitchjam.data.worlds.references import Listener, Mention, Proposal, Referrer, Speech
from stitchjam.data.worlds.wording import Text, Wording, fill, joined, with_field

__all__ = ["Claimed", "EVENTS", "Sentence", "Speaker"]

# What a turn does, as gold names it.
EVENTS = {
    "open": "open topic",
    "reopen": "open topic",
    "join": "open topic",
    "charge": "assign responsibility",
    "date": "set date",
    "move": "move date",
    "propose": "propose option",
    "recommend": "pass on recommendation",
    "inform": "report property",
    "ask": "ask about property",
    "call": "ask about property",
    "feature": "report feature",
    "rule_out": "rule out option",
    "choose": "decide",
    "switch": "change decision",
    "pay": "report payment",
    "fix": "correct mistake",
    "cite": "cite evidence",
    "trait": "tell about person",
    "term": "define term",
    "meet": "open meeting",
    "chatter": "small talk",
}
_TYPES = {
    "charge": ("person",),
    "date": ("date",),
    "move": ("date",),
    "recommend": ("person",),
    "feature": ("feature",),
    "rule_out": ("reason",),
    "switch": ("reason",),
    "pay": ("expense", "price", "date"),
    "cite": ("source",),
    "trait": ("person",),
    "term": ("term",),
}
_OPENINGS = ("open", "reopen", "join")
_BY_NAME = ("call", "propose", "switch")  # say the option's name in full
_NO_PRONOUN = ("choose", "fix", "cite")
_EXPLICIT, _INTRODUCED = 0.06, 0.3


class Claimed(NamedTuple):
    """A fact before it has an id, and the field of the sentence whose words state it."""

    relation: str
    subject: str
    goal: str
    value: str
    field: str
    voids: str = ""


@dataclass
class Sentence:
    """Words with gold. `through` are other turns that tell what it is about; `mentions` by the field they fill."""

    text: Text
    event: str
    types: tuple[str, ...] = ()
    through: frozenset[str] = frozenset()
    claims: list[Claimed] = field(default_factory=list)
    mentions: dict[str, Mention] = field(default_factory=dict)


class Speaker(NamedTuple):
    """Puts acts into words, one after the other; the listener learns from each."""

    wording: Wording
    listener: Listener
    dice: Random

    def tell(self, act: Act, speech: Speech, today: date, happens: str = "") -> Sentence:
        """An act in words.

        Args:
            act: what is said.
            speech: the turn in which it will stand.
            today: when that is.
            happens: what the goal does on its date, such as "takes place".
        """
        person = self._person(act, speech)
        template = self._template(act, speech, "_of" if person and person.pronoun else "")
        clause = self._clause(act)
        mention = self._mention(act, speech, clause or template)
        fields = self._words(act, speech, today) | {"happens": happens}
        if mention:
            fields["option"] = mention.words
        if mention and act.event == "choose":  # "the second hall you proposed" needs no "as the hall"
            way = self.wording.templates("as_kind", "dialogue")[0]
            fields["as_kind"] = "" if str(fields["kind"]) in mention.words else fill(way, fields)
        if person:
            fields["she"] = person.words
        if clause:
            fields["ask" if act.event == "ask" else "say"] = fill(clause, fields)
        told = Sentence(fill(template, fields), EVENTS[act.event], self._types(act))
        told.mentions = {name: one for name, one in (("option", mention), ("she", person)) if one}
        told.through = self._topic(act, speech, template)
        if act.event != "cite":  # that somebody cites a source is understood without knowing what for or against
            told.through = told.through.union(*(one.through for one in told.mentions.values()))
        told.claims = _claims(act, speech, today, self.listener.mistakes.pop(id(act.fields.get("of")), ""))
        self._heard(act, speech, told)
        return told

    def answer(self, act: Act, speech: Speech, question: Sentence, asked: str) -> Sentence:
        """The bare value of an act as the answer to a question; a reader needs the turn that asked."""
        option = act.fields["option"]
        table = self.wording.attributes(option.kind)[act.fields["attribute"]]
        ways = self.wording.templates("result", "tool") if speech.style == "tool" else table["short"]
        text = fill(self.dice.choice(ways), {"value": act.fields["value"], "noun": table["noun"]})
        told = Sentence(text, EVENTS[act.event], self._types(act), question.through | {asked})
        told.claims = _claims(act, speech, date.min, "")
        self.listener.last = self.listener.person = None
        return told

    def _person(self, act: Act, speech: Speech) -> Mention | None:
        if act.event != "trait":
            return None
        name = act.fields["person"]
        return Referrer(self.wording, self.listener, self.dice).person(name, self.wording.pronoun(name), speech)

    def _template(self, act: Act, speech: Speech, suffix: str) -> str:
        """A way to put it, which names the goal when it is not the one that is talked about, and sometimes anyway."""
        way = act.event + suffix
        if way == "fix" and "date" in act.fields:
            way = "fix_date"
        if way == "cite":
            way = f"cite_{act.fields['stance']}"
        if way == "propose" and self._more(act.fields["option"].kind, act, speech):
            way = "propose_more"
        ways = self.wording.templates(way, _voice(speech))
        if way in _OPENINGS:
            return self.dice.choice(ways)
        explicit = 0 if speech.style == "mail" else _EXPLICIT  # a mail's subject names it
        named = self.listener.topic[0] != speech.goal or self.dice.random() < explicit
        return self._fresh(with_field(ways, "goal", named), speech.turn)

    def _fresh(self, ways: list[str], turn: str) -> str:
        """One that the turn has not used yet, where there is one: a mail does not begin each sentence alike."""
        if self.listener.frames[0] != turn:
            self.listener.frames = (turn, [])
        used = self.listener.frames[1]
        used.append(self.dice.choice([way for way in ways if way not in used] or ways))
        return used[-1]

    def _more(self, kind: str, act: Act, speech: Speech) -> bool:
        """Whether the same person has just proposed another option of the kind."""
        just = (kind, speech.actors[act.role], session_of(speech.turn))
        made = self.listener.proposals.get(speech.goal, [])
        return any((one.kind, one.actor, session_of(one.turn)) == just for one in made)

    def _topic(self, act: Act, speech: Speech, template: str) -> frozenset[str]:
        if act.event in ("trait", "term") or "{goal}" in template.lower():
            return frozenset()
        return frozenset({self.listener.topic[1]}) - {speech.turn}

    def _clause(self, act: Act) -> str:
        """Words about the property that the template has room for."""
        if "attribute" not in act.fields or act.event == "call":
            return ""
        table = self.wording.attributes(act.fields["option"].kind)[act.fields["attribute"]]
        return self.dice.choice(table["ask" if act.event == "ask" else "say"])

    def _mention(self, act: Act, speech: Speech, template: str) -> Mention | None:
        option = act.fields.get("option")
        if option is None or act.event in _BY_NAME:
            return Mention(option.name, option.name) if option else None
        referrer = Referrer(self.wording, self.listener, self.dice)
        return referrer.mention(
            option, speech, template, short=act.event not in _NO_PRONOUN, actor=speech.actors[act.role]
        )

    def _words(self, act: Act, speech: Speech, today: date) -> dict[str, str | Text]:
        given = act.fields
        fields: dict[str, str | Text] = {name: value for name, value in given.items() if isinstance(value, str)}
        fields |= {"goal": speech.goal, "actor": speech.actors[act.role]}
        if option := given.get("option"):
            fields |= {"kind": self.wording.noun(option.kind), "kinds": self.wording["kinds"][option.kind]["plural"]}
        if "attribute" in given and option:
            fields["noun"] = self.wording.attributes(option.kind)[given["attribute"]]["noun"]
        if "old" in given:
            fields["old"] = given["old"].name
        if "date" in given:
            fields["date"] = self._day(given["date"], today, speech, full=act.event == "fix")
        if "ago" in given:
            fields["paid"] = self._day(today - timedelta(days=given["ago"]), today, speech)
        if isinstance(given.get("wrong"), date):
            fields["wrong"] = f"on {say_day(given['wrong'])}"
        return fields

    def _day(self, day: date, today: date, speech: Speech, full: bool = False) -> str:
        """A date in words. Minutes are read later, so they give it in full; nobody else does for yesterday."""
        phrases = date_phrases(day, today)
        if full or speech.role is None:
            return self.dice.choice(phrases[:2])
        return self.dice.choice(phrases[2:] if abs((day - today).days) < 3 else phrases)

    def _types(self, act: Act) -> tuple[str, ...]:
        option = act.fields.get("option")
        types = (option.kind,) if option else ()
        if "attribute" in act.fields and option:
            types = (*types, self.wording.attributes(option.kind)[act.fields["attribute"]]["type"])
        return (*types, *(("date",) if "date" in act.fields else _TYPES.get(act.event, ())))

    def _heard(self, act: Act, speech: Speech, told: Sentence) -> None:
        """What "it" and "she" mean from here on, and what may be referred to later."""
        listener, mention = self.listener, told.mentions.get("option")
        if act.event in _OPENINGS:
            listener.topic = (speech.goal, speech.turn)
        if not mention or act.event == "switch":
            listener.last = None
        elif not mention.pronoun:  # "it" said again still goes back to the turn before that named it
            listener.last = (mention.means, mention.through | {speech.turn})
        self._heard_person(act, speech, told.mentions.get("she"))
        if act.event == "propose":
            self._heard_proposal(act.fields["option"], act, speech, told)

    def _heard_person(self, act: Act, speech: Speech, person: Mention | None) -> None:
        if act.event == "charge":
            self.listener.person = (act.fields["person"], frozenset({speech.turn}))
        elif person is None or not person.pronoun:
            self.listener.person = (person.means, frozenset({speech.turn})) if person else None

    def _heard_proposal(self, option: Option, act: Act, speech: Speech, told: Sentence) -> None:
        made = self.listener.proposals.setdefault(speech.goal, [])
        heard, turns = frozenset(speech.actors), told.through | {speech.turn}
        made.append(Proposal(option.kind, speech.actors[act.role], option.name, speech.turn, turns, heard))
        if (option.name, heard) not in self.listener.other_names and self.dice.random() < _INTRODUCED:
            self.listener.other_names[option.name, heard] = speech.turn
            ways = self.wording.templates("alias", _voice(speech))
            told.text = joined([told.text, fill(self.dice.choice(ways), {"other": option.other})], " ")


def _voice(speech: Speech) -> str:
    """Whose words to choose: of an agent where there is one, else of anybody who speaks in this style."""
    return f"{speech.style}_agent" if speech.role == 1 else speech.style


def _claims(act: Act, speech: Speech, today: date, voids: str) -> list[Claimed]:
    """The facts that an act states."""
    given = act.fields
    option, old = given.get("option"), given.get("old")
    kind, name = (option.kind, option.name) if option else ("", "")
    if act.event in ("ask", "call", *_OPENINGS):
        return []
    if "date" in given:
        day = given["date"].isoformat()
        moved = [Claimed("moved", "", speech.goal, day, "date")] if act.event == "move" else []
        return [Claimed("date", "", speech.goal, day, "date", voids), *moved]
    told: Mapping[str, list[tuple[str, str, str]]] = {
        "charge": [("charge", "", "person")],
        "propose": [(f"{kind}.proposed", name, "option")],
        "recommend": [(f"{kind}.recommended", name, "person")],
        "inform": [(f"{kind}.{given.get('attribute')}", name, "value")],
        "fix": [(f"{kind}.{given.get('attribute')}", name, "value")],
        "feature": [(f"{kind}.feature", name, "feature")],
        "rule_out": [(f"{kind}.ruled_out", name, "reason")],
        "choose": [(f"{kind}.chosen", kind, "option")],
        "switch": [
            (f"{kind}.chosen", kind, "option"),
            (f"{kind}.replaced", old.name if old else "", "option"),
            (f"{kind}.dropped", old.name if old else "", "cause"),
        ],
        "pay": [("paid", given.get("item", ""), "amount"), ("paid_on", given.get("item", ""), "paid")],
        "cite": [(f"cited.{given.get('stance')}", given.get("source", ""), "source")],
        "trait": [("trait", given.get("person", ""), "trait")],
        "term": [("term", given.get("term", ""), "definition")],
    }
    values = {name: value for name, value in given.items() if isinstance(value, str)}
    values["option"] = speech.actors[act.role] if act.event == "propose" else name
    if act.event == "cite":
        values["source"] = speech.actors[act.role]
    values["paid"] = (today - timedelta(days=given.get("ago", 0))).isoformat()
    goal = "" if act.event in ("trait", "term") else speech.goal
    return [
        Claimed(relation, subject, goal, values[words], words, voids) for relation, subject, words in told[act.event]
    ]
