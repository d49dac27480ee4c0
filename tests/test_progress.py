"""Progress is bars on a terminal and one line an item in a log."""

import io

from stitchjam.optimizers.progress import progress_shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_gets_one_line_an_item_with_count_and_score():
    log = io.StringIO()
    with progress_shown(log, {"seed": 2}) as tick:
        tick("seed", "q1", 0.5)
        tick("seed", "q2", None)
    assert log.getvalue().splitlines() == ["seed        1/2  q1  0.50", "seed        2/2  q2"]


def test_a_terminal_gets_a_bar_with_count_and_mean(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with progress_shown(terminal, {"seed": 2}) as tick:
        tick("seed", "q1", 0.5)
        tick("seed", "q2", 1.0)
    assert "2/2" in terminal.getvalue()
    assert "mean 0.750" in terminal.getvalue()
