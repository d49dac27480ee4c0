"""Turns a goal into a plot: what is said about it in each of six beats, still without words.

Options are proposed, asked about, ruled out, chosen and changed again, dates are set and moved, bills are paid. Beats
of several plots run side by side, with the same people and options: one hall has another price for another evening.
"""

from dataclasses import dataclass, field
from datetime import date, timedelta
from random import Random
from typing import Any

from stitchjam.data.worlds.cast import Cast, Goal, Option
from stitchjam.data.worlds.dials import Dials

__all__ = ["Act", "Plot", "citations", "write_plot"]

_LEAD = (35, 120)  # days from the first session about a goal to its first date


@dataclass(frozen=True)
class Act:
    """One thing that is said. `role` 0 organises, 1 helps; `fields` are what it is about.

    `event` is one of: charge date move propose recommend inform feature rule_out choose switch pay fix cite trait term.
    """

    event: str
    role: int
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass
class Plot:
    """A goal with its options and the beats that are still to be told."""

    goal: Goal
    organiser: str
    options: dict[str, list[Option]]
    day: date  # the goal's date as it stands
    beats: list[list[Act]] = field(default_factory=list)
    sides: dict[str, int] = field(default_factory=dict)  # the role that proposed an option, and knows about it


def write_plot(cast: Cast, dials: Dials, dice: Random, organiser: str, today: date) -> "Plot":
    """A plot about a new goal.

    Args:
        cast: deals its goal, options and values.
        dials: `noise` counts here.
        dice: the plot's own.
        organiser: who it belongs to.
        today: when it is first talked about.
    """
    goal = cast.goal()
    options = {kind: cast.options(kind, goal.place, dice.randint(4, 5)) for kind in goal.table["kinds"]}
    plot = Plot(goal, organiser, options, today + timedelta(days=dice.randint(*_LEAD)))
    _Writer(plot, dials, cast, dice).write()
    return plot


def citations(plot: Plot, acts: list[Act], cast: Cast, dice: Random) -> list[Act]:
    """What the two sides of a debate cite: for what they proposed themselves, against what the other side did."""
    decided = [act.fields["option"] for act in acts if act.event == "choose"]
    named = dict.fromkeys(act.fields["option"] for act in acts if "option" in act.fields)
    options = [option for option in named if option not in decided]
    roles = [0, 1, dice.randrange(2), dice.randrange(2)][: dice.randint(2, 4)] if options else []
    sources = cast.wording["people"]["sources"]
    cited = [(role, dice.choice(options), cast.draw("source", sources)) for role in roles]
    return [
        Act(
            "cite",
            role,
            {"option": option, "source": source, "stance": "for" if plot.sides[option.name] == role else "against"},
        )
        for role, option, source in cited
    ]


class _Writer:
    """Writes the beats of one plot."""

    def __init__(self, plot: Plot, dials: Dials, cast: Cast, dice: Random):
        self.plot, self.dials, self.cast, self.dice = plot, dials, cast, dice
        self.wrong: list[Act] = []  # told wrong, and not put right yet
        self.left = {kind: list(options) for kind, options in plot.options.items()}
        self.chosen: dict[str, Option] = {}
        self.days = {plot.day}  # a goal never goes back to a date that it had
        self.items = dice.sample(plot.goal.table["items"], len(plot.goal.table["items"]))

    def write(self) -> None:
        kinds = list(self.plot.options)
        proposals = {kind: self._proposals(kind) for kind in kinds}
        charge = Act("charge", 0, {"person": self._friend()})
        opening = [charge, self._date(), *(acts[0] for acts in proposals.values())]
        first = slice(2) if len(kinds) == 1 else slice(None)
        enquiries = [proposals[kind][1:] + self._enquiry(kind, first, praise=True) for kind in kinds]
        if len(kinds) == 1:  # what is known about the options of a single kind is told in two beats
            enquiries += [self._enquiry(kinds[0], slice(2, None), praise=False)]
        decision = [act for kind in kinds for act in (*self._ruled_out(kind), self._choice(kind))]
        changes = self._changes(0.55, 0.6)
        end = [*self._changes(0.4, 0.35), *self._fixes()]
        self.plot.beats += [opening, *enquiries, decision, changes, end]

    def _role(self) -> int:
        return self.dice.randrange(2)

    def _friend(self) -> str:
        return self.dice.choice(list(self.cast.friends))

    def _date(self) -> Act:
        day, apart = self.plot.day, self.dice.choice((-7, -2, -1, 1, 2, 7))
        if self.dice.random() >= self.dials.noise:
            return Act("date", 0, {"date": day})
        self.wrong.append(Act("date", 0, {"date": day + timedelta(days=apart), "right": day}))
        return self.wrong[-1]

    def _changes(self, switch: float, move: float) -> list[Act]:
        """Mistakes put right, bills paid, minds changed. A date is not put right and moved in one breath."""
        fixes = self._fixes()
        moves = [] if any("date" in act.fields for act in fixes) else self._moves(move)
        return [*fixes, *self._payments(), *moves, *self._switches(switch)]

    def _moves(self, chance: float) -> list[Act]:
        if self.dice.random() >= chance:
            return []
        steps = (-6, -4, -3, 3, 4, 5, 6, 8, 9, 10, 11, 13, 16, 21)
        new = [day for step in steps if (day := self.plot.day + timedelta(days=step)) not in self.days]
        self.plot.day = self.dice.choice(new)
        self.days.add(self.plot.day)
        return [Act("move", 0, {"date": self.plot.day})]

    def _proposals(self, kind: str) -> list[Act]:
        options = self.plot.options[kind]
        roles = self.dice.sample([0, 1, *(self._role() for _ in options[2:])], len(options))
        self.plot.sides |= {one.name: role for role, one in zip(roles, options, strict=True)}
        return [Act("propose", self.plot.sides[one.name], {"option": one}) for one in options]

    def _enquiry(self, kind: str, which: slice, praise: bool) -> list[Act]:
        """What is found out, option by option: values of some properties; with praise, features and recommendations."""
        names = list(self.cast.wording.attributes(kind))[which]
        options = self.dice.sample(self.plot.options[kind], len(self.plot.options[kind]))
        found = {one: [self._inform(one, name) for name in names if self.dice.random() < 0.7] for one in options}
        if not any(found.values()):
            found[options[0]].append(self._inform(options[0], names[0]))
        for act in self._praise(kind) if praise else []:
            found[act.fields["option"]].append(act)
        return [act for acts in found.values() for act in self.dice.sample(acts, len(acts))]

    def _inform(self, option: Option, attribute: str) -> Act:
        fields = {"option": option, "attribute": attribute, "value": self.cast.value(option, attribute)}
        if self.dice.random() >= self.dials.noise:
            return Act("inform", self.plot.sides[option.name], fields)
        right = fields["value"]
        fields |= {"right": right, "value": self.cast.near(option.kind, attribute, right)}
        self.wrong.append(Act("inform", self.plot.sides[option.name], fields))
        return self.wrong[-1]

    def _praise(self, kind: str) -> list[Act]:
        """Features of which no single one tells an option from the others, and what a friend recommends."""
        both, first, second = self.dice.sample(self.plot.options[kind], 3)
        features = self.cast.two_features(self.plot.options[kind])
        who = (both, both, first, second) if features else ()
        praised = {"person": self._friend(), "option": self.dice.choice((first, both))}
        acts = [
            Act("feature", self.plot.sides[option.name], {"option": option, "feature": has})
            for option, has in zip(who, (*features, *features), strict=False)
        ]
        return [*acts, Act("recommend", self._role(), praised)]

    def _ruled_out(self, kind: str) -> list[Act]:
        out = self.dice.sample(self.left[kind], self.dice.randint(1, len(self.left[kind]) - 2))
        self.left[kind] = [option for option in self.left[kind] if option not in out]
        reasons = self.cast.wording["kinds"][kind]["reasons"]
        return [
            Act("rule_out", self._role(), {"option": one, "reason": self.cast.draw(f"reason/{kind}", reasons)})
            for one in out
        ]

    def _choice(self, kind: str) -> Act:
        self.chosen[kind] = self.left[kind].pop(self.dice.randrange(len(self.left[kind])))
        return Act("choose", 0, {"option": self.chosen[kind]})

    def _switches(self, chance: float) -> list[Act]:
        kinds = [kind for kind in self.chosen if self.left[kind] and self.dice.random() < chance]
        return [self._switch(kind) for kind in kinds]

    def _switch(self, kind: str) -> Act:
        old, self.chosen[kind] = self.chosen[kind], self.left[kind].pop(self.dice.randrange(len(self.left[kind])))
        cause = self.cast.draw(f"switch/{kind}", self.cast.wording["kinds"][kind]["switches"])
        return Act("switch", 0, {"old": old, "option": self.chosen[kind], "cause": cause})

    def _payments(self) -> list[Act]:
        paid = [self.items.pop() for _ in range(self.dice.randint(1, 3))]
        return [
            Act(
                "pay",
                self._role(),
                {"item": item, "amount": f"{self.dice.randint(low, high)} euros", "ago": self.dice.randint(0, 5)},
            )
            for item, low, high in paid
        ]

    def _fixes(self) -> list[Act]:
        """Puts right what was told wrong so far, unless it is about an option that nobody looks at any more."""
        wrong, self.wrong = self.wrong, []
        alive = [*self.chosen.values(), *(option for left in self.left.values() for option in left)]
        return [self._fix(act) for act in wrong if "date" in act.fields or act.fields["option"] in alive]

    def _fix(self, wrong: Act) -> Act:
        told = "date" if "date" in wrong.fields else "value"
        fields = wrong.fields | {told: wrong.fields["right"], "wrong": wrong.fields[told], "of": wrong.fields}
        return Act("fix", wrong.role, fields)
