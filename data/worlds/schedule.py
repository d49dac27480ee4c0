"""Turns plots into an endless-looking stream of sessions: whose, when, in which style, and what is talked about.

A few plots of each team are told side by side, one or two beats a session. What is kept does not grow with the number
of sessions: a plot is dropped when its last beat has been told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from stitchjam.data.worlds.cast import Cast
from stitchjam.data.worlds.dials import Dials, Style
from stitchjam.data.worlds.plots import Act, Plot, citations, write_plot

__all__ = ["Meeting", "Segment", "meetings"]

_SERVED = ("tool", "trip")  # one person and an agent, who do not gossip
_START = datetime.fromisoformat("2026-01-05T09:00")
_BEATS = 6
_ACTIVE = 3  # plots that a team works on at once
_BOTH = 0.45  # how often a session goes on with two plots
_HOURS = 36  # from one session of a team to its next, in the mean
_DAYS = 5  # for each beat that is left; with fewer until its date, a plot goes first


@dataclass
class Segment:
    """What is said in a session about one goal; `last` when nothing will be said about it any more."""

    plot: Plot
    acts: list[Act]
    last: bool


@dataclass
class Meeting:
    """A session before it has words."""

    number: int
    time: datetime
    style: Style
    team: tuple[str, str]
    segments: list[Segment]
    talk: list[Act] = field(default_factory=list)  # about people and words, before the first segment


class _Scheduler:
    def __init__(self, dials: Dials, cast: Cast):
        self.dials, self.cast = dials, cast
        self.dice = Random(f"{dials.seed}/schedule")
        self.active: dict[tuple[str, str], list[Plot]] = {team: [] for team in cast.teams}
        self.traits = dict(cast.friends)
        self.terms = list(cast.wording["people"]["terms"])
        self.dice.shuffle(self.terms)
        self.time, self.plots = _START, 0

    def meeting(self, number: int) -> Meeting:
        pressed = self._pressed([plot for plots in self.active.values() for plot in plots])
        team = self._team(pressed) if pressed else self.dice.choice(self.cast.teams)
        left = self.dials.sessions - number
        self._start_plots(team, left)
        plots = self.active[team] or max(self.active.values(), key=len)
        team = self._team(plots[0]) if plots else team
        style, chosen = self._choose(plots, left)
        meeting = Meeting(number, self._next_time(), style, team, [self._segment(plot, style) for plot in chosen])
        if style not in _SERVED:
            meeting.talk = self._talk(2 if not chosen else 1)
        return meeting

    def _pressed(self, plots: list[Plot]) -> Plot | None:
        """What has to be told now, or its date comes before its end."""
        late = [plot for plot in plots if (plot.day - self.time.date()).days < _DAYS * len(plot.beats)]
        return min(late, key=lambda plot: plot.day, default=None)

    def _team(self, plot: Plot) -> tuple[str, str]:
        return next(team for team, plots in self.active.items() if plot in plots)

    def _start_plots(self, team: tuple[str, str], left: int) -> None:
        """New plots while there is room to tell them to the end."""
        waiting = sum(len(plot.beats) for plots in self.active.values() for plot in plots)
        while len(self.active[team]) < _ACTIVE and waiting + _BEATS <= left * (1 + _BOTH):
            dice = Random(f"{self.dials.seed}/plot/{self.plots}")
            plot = write_plot(self.cast, self.dials, dice, dice.choice(team), self.time.date())
            self.active[team].append(plot)
            self.plots, waiting = self.plots + 1, waiting + _BEATS

    def _choose(self, plots: list[Plot], left: int) -> tuple[Style, list[Plot]]:
        """A style, and one or two plots that it suits; more when the end is near."""
        if not plots:
            return self._style([style for style in self.dials.styles if style not in _SERVED]), []
        waiting = sum(len(plot.beats) for active in self.active.values() for plot in active)
        count = max(1 + (self.dice.random() < _BOTH), -(-waiting // left))
        first = self._pressed(plots) or max(plots, key=lambda plot: len(plot.beats) + 3 * self.dice.random())
        style = self._style(_styles(first))
        # An agent serves one person at a time; two people can talk about what either of them organises.
        others = [plot for plot in plots if plot is not first and style in _styles(plot)]
        others = [plot for plot in others if style not in _SERVED or plot.organiser == first.organiser]
        return style, [first, *others][:count]

    def _style(self, allowed: list[str]) -> Style:
        weights: dict[Style, float] = {
            style: weight * allowed.count(style) for style, weight in self.dials.styles.items()
        }
        if not sum(weights.values()):
            weights = dict(self.dials.styles)
        return self.dice.choices(list(weights), list(weights.values()))[0]

    def _segment(self, plot: Plot, style: Style) -> Segment:
        acts = plot.beats.pop(0)
        acts = [told for act in acts for told in (act, *self._about_charge(act))]
        if style == "debate":  # each side attacks what the other proposed; it is heard before it is decided
            acts = [_against(act, plot) if act.event == "rule_out" else act for act in acts]
            cited = citations(plot, acts, self.cast, self.dice)
            acts = cited + acts if acts[0].event == "rule_out" else acts + cited
        if not plot.beats:
            self.active[self._team(plot)].remove(plot)
        return Segment(plot, acts, last=not plot.beats)

    def _about_charge(self, act: Act) -> list[Act]:
        """Sometimes, what there is to tell about the person who is put in charge."""
        person = act.fields.get("person", "")
        if act.event != "charge" or person not in self.traits or self.dice.random() >= 0.5:
            return []
        return [Act("trait", act.role, {"person": person, "trait": self.traits.pop(person)})]

    def _talk(self, most: int) -> list[Act]:
        acts: list[Act] = []
        for _ in range(most):
            if self.traits and self.dice.random() < 0.4:
                person, trait = self.traits.popitem()
                acts.append(Act("trait", self.dice.randrange(2), {"person": person, "trait": trait}))
            elif self.terms and self.dice.random() < 0.2:
                term, definition = self.terms.pop()
                acts.append(Act("term", self.dice.randrange(2), {"term": term, "definition": definition}))
        return acts

    def _next_time(self) -> datetime:
        steps = self.dice.randint(1, 2 * _HOURS * 12 // len(self.cast.teams))
        self.time += timedelta(minutes=5 * steps)
        if not 8 <= self.time.hour < 20:  # people sleep; the next morning
            morning = self.time.replace(hour=8, minute=5 * self.dice.randrange(12))
            self.time = morning if self.time.hour < 8 else morning + timedelta(days=1)
        return self.time


def _against(act: Act, plot: Plot) -> Act:
    return Act(act.event, 1 - plot.sides[act.fields["option"].name], act.fields)


def _styles(plot: Plot) -> list[str]:
    """Styles that suit the next beat: a debate needs something to argue about."""
    argued = any(act.event in ("feature", "rule_out") for act in plot.beats[0])
    return [style for style in plot.goal.table["styles"] if style != "debate" or argued]


def meetings(dials: Dials, cast: Cast) -> Iterator[Meeting]:
    """All sessions of a world, in time order."""
    scheduler = _Scheduler(dials, cast)
    for number in range(dials.sessions):
        yield scheduler.meeting(number)
