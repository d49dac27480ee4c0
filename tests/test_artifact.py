"""An artifact gives back the same prompts byte for byte, or says what is wrong with it and changes nothing."""

import copy
import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from filing import FILING
from oracle import Oracle
from stitching import SCRIPTS, attentive, labelled

import stitchjam
from stitchjam.backends.adapter import StepAdapter
from stitchjam.backends.scripted import scripted_lm
from stitchjam.data.errors import ArtifactError, UsageError
from stitchjam.data.intents.notebook import Notebook
from stitchjam.data.sample import load_data
from stitchjam.optimizers import publish
from stitchjam.optimizers.publish import check_target, write_artifact
from stitchjam.optimizers.task import examples
from stitchjam.programs.answer import Answerer, MemoryAgent
from stitchjam.programs.artifact import PROGRAMS, SCHEMA, load, open_program, read_manifest, seal
from stitchjam.programs.contract import digest, placeholder_messages, predictors_of, signature_of
from stitchjam.programs.folder import set_aside
from stitchjam.programs.jam.researcher import Researcher
from stitchjam.programs.step import Program, Step
from stitchjam.programs.stitch.stitcher import LABELERS
from stitchjam.signatures.answer import AnswerQuestion, AnswerReply

FACTS: dict[str, Any] = {
    "compiled_for": {"role:task": "scripted"},
    "recipe": {"name": "bootstrap"},
    "metric": {"name": "answer_f1"},
    "data": {"questions": 4},
    "scores": {"held_out": {"after": 0.5}},
    "published": True,
}
RUN = {"seconds": 1.5}
VERDICTS = {
    "judge_answer": {"missing": "nothing", "verdict": "CORRECT"},
    "match_candidates": {"pairs": [{"reference": "g1", "answer": "a1"}]},
}
INTENT = {"scopes": [], "events": [], "entities": []}
TO_JUDGE = {
    "answer_judge": [
        dspy.Example(question=f"{n}?", reference="x", answer="y", kind="").with_inputs(
            "question", "reference", "answer", "kind"
        )
        for n in range(3)
    ],
    "candidate_judge": [
        dspy.Example(question=f"{n}?", reference=["x"], answer=["y"]).with_inputs("question", "reference", "answer")
        for n in range(3)
    ],
}


@pytest.fixture(scope="module")
def data():
    return load_data()


@pytest.fixture(scope="module")
def compiled(data) -> dict[str, Program]:
    """All programs, bootstrapped."""
    programs = {}
    turns = data.store.turns[:3]
    store = data.store.noted(labelled(data.store.history.first(60), attentive()).entries)
    to_label = [dspy.Example(turn=turn, notebook=Notebook()).with_inputs("turn", "notebook") for turn in turns]
    to_file = [dspy.Example(session=one, related=()).with_inputs("session", "related") for one in store.sessions[:2]]
    for name, kind in PROGRAMS.items():
        own = to_label if name in LABELERS else to_file if name == "memorizer" else TO_JUDGE.get(name)
        trainset = own or list(examples(name, data.questions[:3], store))
        optimizer = dspy.BootstrapFewShot(
            metric=lambda example, prediction, trace=None: True, max_bootstrapped_demos=2, max_labeled_demos=0
        )
        with dspy.context(lm=Oracle(data, always_right=True).lm(**VERDICTS, **SCRIPTS, **FILING, read_intent=INTENT)):
            programs[name] = optimizer.compile(kind(), trainset=trainset)
    return programs


@pytest.fixture
def answerer(compiled) -> Program:
    return compiled["answerer"].deepcopy()


@pytest.fixture
def folder(answerer, tmp_path) -> Path:
    """An artifact of the answerer."""
    write(tmp_path / "made", answerer)
    return tmp_path / "made"


def write(folder: Path, program: Program, name: str = "answerer", **facts: Any):
    return write_artifact(folder, name, program, FACTS | facts, RUN)


def prompts(program: dspy.Module, inputs: str = "") -> dict[str, str]:
    """The exact bytes of every prompt, for placeholders or for real inputs."""
    result = {}
    for name, predictor in predictors_of(program).items():
        signature = signature_of(predictor)
        filled = {field: f"{inputs} of {field}\nline" for field in signature.input_fields}
        messages = (
            StepAdapter().format(signature, predictor.demos, filled) if inputs else placeholder_messages(predictor)
        )
        result[name] = json.dumps(messages, ensure_ascii=False)
    return result


def rewrite(folder: Path, file: str, change) -> None:
    """Change a JSON file of an artifact and make all its hashes fit again, as a tamperer would."""
    table = json.loads((folder / file).read_text())
    change(table)
    (folder / file).write_text(json.dumps(table))
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in ("program.json", "prompts.md"):
        manifest["files"][name] = digest((folder / name).read_text())
    manifest["files"]["manifest.json"] = seal(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def predictor_of(program: Program) -> dspy.Predict:
    return next(iter(predictors_of(program).values()))


# ------------------------------------------------------------------ there and back


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loaded_program_has_the_same_prompts(name, compiled, tmp_path):
    program = compiled[name]
    assert all(
        len(predictor.demos) > 0
        for path, predictor in predictors_of(program).items()
        if not path.endswith(("plan_next", "merge_labels", "rank_turns", "group_memos", "write_readme"))
    )
    write(tmp_path / "x", program, name)
    loaded = load(tmp_path / "x")
    assert type(loaded) is type(program) and loaded.hparams() == program.hparams()
    assert prompts(loaded) == prompts(program)
    assert prompts(loaded, 'wörds „quoted“ \\ "') == prompts(program, 'wörds „quoted“ \\ "')


@pytest.mark.parametrize("name", PROGRAMS)
def test_dspys_own_save_and_load_work_too(name, compiled, tmp_path):
    compiled[name].save(tmp_path / "state.json")
    loaded = PROGRAMS[name]()
    loaded.load(tmp_path / "state.json")
    assert prompts(loaded) == prompts(compiled[name])
    assert prompts(loaded, "real") == prompts(compiled[name], "real")


def test_the_same_program_gives_the_same_bytes(answerer, tmp_path):
    first, second = (write(tmp_path / name, answerer) for name in ("a", "b"))
    assert first == second == read_manifest(tmp_path / "a")
    for file in ("program.json", "manifest.json", "prompts.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_loaded_program_written_again_gives_the_same_bytes(folder, tmp_path):
    write(tmp_path / "again", load(folder))
    for file in ("program.json", "manifest.json", "prompts.md"):
        assert (tmp_path / "again" / file).read_bytes() == (folder / file).read_bytes()


def test_hyperparameters_come_back(tmp_path):
    write(tmp_path / "x", MemoryAgent(Researcher("high"), Answerer(77)), "memory_agent")
    loaded = load(tmp_path / "x")
    assert isinstance(loaded, MemoryAgent)
    assert loaded.answerer.context_tokens == 77 and loaded.researcher.limits.rounds == 20


def test_a_compiled_child_is_saved_and_loaded(tmp_path):
    agent = MemoryAgent()
    agent.answerer._compiled = True
    answer_step = dict(predictors_of(agent))["answerer.answer_question"]
    answer_step.signature = AnswerQuestion.with_instructions("Answer like a pirate.")
    write(tmp_path / "x", agent, "memory_agent")
    assert "pirate" in prompts(load(tmp_path / "x"))["answerer.answer_question"]


def test_sampling_options_of_a_predictor_come_back(answerer, tmp_path):
    predictor_of(answerer).config = {"temperature": 0.7, "max_tokens": 50}
    write(tmp_path / "x", answerer)
    assert predictor_of(load(tmp_path / "x")).config == {"temperature": 0.7, "max_tokens": 50}


def test_text_with_carriage_returns_and_odd_signs_comes_back(answerer, tmp_path):
    predictor_of(answerer).signature = AnswerQuestion.with_instructions("one\r\ntwo\rthree\u2028four \x00 ```\n# x")
    write(tmp_path / "x", answerer)
    assert prompts(load(tmp_path / "x")) == prompts(answerer)


def test_the_state_can_go_into_a_program_of_your_own(folder, answerer):
    mine = Answerer(context_tokens=5)
    assert load(folder, program=mine) is mine
    assert mine.context_tokens == 5 and prompts(mine) == prompts(answerer)


def test_a_custom_program_needs_to_be_given(answerer, tmp_path):
    write(tmp_path / "x", answerer, "mine")
    with pytest.raises(
        ArtifactError, match=r"'mine' is not one of answer_judge, answerer, .*load\(path, program=\.\.\.\)"
    ):
        load(tmp_path / "x")
    assert prompts(load(tmp_path / "x", program=Answerer())) == prompts(answerer)


def test_loading_replaces_the_demos_that_were_there(folder, answerer):
    mine = Answerer()
    predictor_of(mine).demos = [{"question": "old"}]
    assert len(predictor_of(load(folder, program=mine)).demos) == len(predictor_of(answerer).demos)


def test_a_loaded_program_answers_alike_in_eight_threads(folder, data):
    program = load(folder)
    inputs = [dict(example.inputs()) for example in examples("answerer", data.questions[:16], data.store)]
    with dspy.context(lm=Oracle(data).lm()):
        expected = [program(**each).answer for each in inputs]
    with dspy.context(lm=Oracle(data).lm()):
        got = dspy.Parallel(num_threads=8, disable_progress_bar=True, timeout=0)([(program, each) for each in inputs])
    assert [prediction.answer for prediction in got] == expected


def test_eight_threads_can_load_at_once(folder, answerer):
    with ThreadPoolExecutor(8) as pool:
        assert all(prompts(program) == prompts(answerer) for program in pool.map(load, [folder] * 16))


def test_loading_from_the_root_imports_no_optimizer(folder):
    code = (
        "import sys, stitchjam\n"
        f"stitchjam.load({str(folder)!r})\n"
        "print([name for name in sys.modules if name.startswith('stitchjam.optimizers') or name == 'optuna'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert stitchjam.load is load


def test_an_artifact_or_a_fresh_program_can_be_opened_by_name(folder):
    assert open_program(str(folder))[0] == "answerer"
    name, program = open_program("memory_agent", "high")
    assert name == "memory_agent" and isinstance(program, MemoryAgent) and program.researcher.effort == "high"
    with pytest.raises(UsageError, match="none of answer_judge, answerer, .*, stitch, stitch_agent"):
        open_program("nothing")


# ------------------------------------------------------------------ damaged


@pytest.mark.parametrize("file", ["program.json", "prompts.md", "manifest.json"])
def test_one_changed_byte_is_found(file, folder):
    text = (folder / file).read_text()
    (folder / file).write_text(text.replace("answer", "answeR", 1))
    with pytest.raises(ArtifactError, match=rf"changed after it was written: .*{file}|not complete"):
        load(folder)


def test_an_edited_verdict_is_found(folder):
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"published": true', '"published": false'))
    with pytest.raises(ArtifactError, match="changed after it was written: manifest.json"):
        read_manifest(folder)


def test_other_line_endings_are_a_change(folder):
    (folder / "program.json").write_bytes((folder / "program.json").read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(ArtifactError, match="changed after it was written"):
        load(folder)


@pytest.mark.parametrize("file", ["program.json", "prompts.md", "manifest.json"])
def test_a_missing_file_is_named(file, folder):
    (folder / file).unlink()
    with pytest.raises(ArtifactError, match=f"there is no .*{file}"):
        load(folder)


@pytest.mark.parametrize("place", ["nowhere", "made/program.json", "made/nowhere"])
def test_what_is_no_folder_is_named(place, folder):
    with pytest.raises(ArtifactError, match="there is no .*; give the folder"):
        load(folder.parent / place)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"\x7fELF\x02\x01", "not JSON"),
        (b"[]", "not an artifact of format"),
        (b"null", "not an artifact of format"),
        (b'{"name": "web app"}', "not an artifact of format"),
        (b'{"format": "stitchjam.artifact/2"}', "not an artifact of format"),
        (f'{{"format": "{SCHEMA}"}}'.encode(), "not complete"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "not JSON"),
        (b"1" * 10_000, "not JSON"),
    ],
)
def test_a_manifest_that_is_none_is_refused(content, message, folder):
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ArtifactError, match=message):
        load(folder)


def test_a_huge_file_is_not_read(folder):
    with (folder / "program.json").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(ArtifactError, match="larger than"):
        load(folder)


@pytest.mark.parametrize("file", ["program.json", "prompts.md", "manifest.json"])
def test_a_folder_in_the_place_of_a_file_is_refused(file, folder):
    (folder / file).unlink()
    (folder / file).mkdir()
    with pytest.raises(ArtifactError, match="not a file"):
        load(folder)


def test_a_pipe_in_the_place_of_a_file_does_not_hang(folder):
    (folder / "program.json").unlink()
    os.mkfifo(folder / "program.json")
    with pytest.raises(ArtifactError, match="not a file"):
        load(folder)


# ------------------------------------------------------------------ tampered with, hashes recomputed


def part(table: dict) -> dict:
    return table["answer_question"]


def set_demo(value: Any):
    return lambda table: part(table).update(demos=[value])


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: part(t).update(lm={"model": "openai/x", "api_base": "http://evil"}), "holds LM state"),
        (lambda t: part(t).update(forward="x"), "answer_question.forward"),
        (lambda t: part(t).update(step="x", callbacks=[]), "answer_question.step"),
        (lambda t: part(t).update(traces=[{"x": 1}]), "answer_question.traces"),
        (lambda t: part(t).pop("demos"), "answer_question.demos: Field required"),
        (lambda t: part(t).pop("signature"), "answer_question.signature: Field required"),
        (lambda t: part(t)["signature"].update(instructions=5), "instructions"),
        (lambda t: part(t)["signature"]["fields"].pop(), "2 instead of 3"),
        (lambda t: part(t)["signature"]["fields"][0].pop("prefix"), "prefix"),
        (lambda t: part(t).update(demos="many"), "answer_question.demos"),
        (lambda t: t.update(answer_question=None), "answer_question"),
        (lambda t: t.update(other=part(t)), "different predictors"),
        (lambda t: t.clear(), "different predictors"),
        (set_demo("text"), "answer_question.demos.0"),
        (set_demo({"reply": {"sources": []}}), "a demo does not fit AnswerReply"),
        (set_demo({"reply": {"sources": "c1", "answer": "x"}}), "a demo does not fit AnswerReply"),
        (set_demo({"reply": nested(400)}), "cannot be used|does not fit"),
        (lambda t: part(t).update(fields={"reply": "x"}), "cannot be used"),
    ],
)
def test_state_that_is_unsafe_or_does_not_fit_is_refused_and_changes_nothing(change, message, folder):
    rewrite(folder, "program.json", change)
    mine = Answerer()
    predictor_of(mine).demos = [{"question": "mine"}]
    before = prompts(mine), copy.copy(predictor_of(mine).__dict__)
    for program in (None, mine):
        with pytest.raises(ArtifactError, match=message):
            load(folder, program)
    assert (prompts(mine), predictor_of(mine).__dict__) == before


@pytest.mark.parametrize("wrong", [{"api_base": "http://evil"}, {"extra_headers": {}}, {"lm": "x"}, {"model": "y"}])
def test_config_that_could_send_calls_elsewhere_is_refused(wrong, folder):
    rewrite(folder, "manifest.json", lambda t: t.update(config={"answer_question": wrong}))
    with pytest.raises(ArtifactError, match=f"{next(iter(wrong))} are no sampling options"):
        load(folder)


@pytest.mark.parametrize(
    "hparams",
    [{"tokens": 1}, {"context_tokens": "many"}, {"context_tokens": -1}, {"answer_question": "dspy.Module"}],
)
def test_hyperparameters_that_do_not_fit_are_refused(hparams, folder):
    rewrite(folder, "manifest.json", lambda t: t.update(hparams=hparams))
    with pytest.raises(ArtifactError, match="hyperparameters do not fit"):
        load(folder)


@pytest.mark.parametrize(
    "hparams",
    [
        {},
        {"effort": "max", "limits": [1, 1, 1]},
        {"effort": "low", "limits": [1, 1]},
        {"effort": "low", "limits": "abc"},
        {"effort": "low", "limits": [1, 1, 1], "rounds": 5},
        {"effort": "low", "limits": [1, 1, 1], "plan_first": "os.system"},
        {"effort": ["low"], "limits": None},
    ],
)
def test_hyperparameters_of_a_researcher_are_checked_too(hparams, tmp_path):
    write(tmp_path / "x", Researcher(), "researcher")
    rewrite(tmp_path / "x", "manifest.json", lambda t: t.update(hparams=hparams))
    with pytest.raises(ArtifactError, match="hyperparameters do not fit"):
        load(tmp_path / "x")


@pytest.mark.parametrize("name", LABELERS)
@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("sizes", {"window": 0}),
        ("sizes", {"window": -900}),
        ("sizes", {"window": None}),
        ("sizes", {"scopes": -1}),
        ("sizes", {"before": 1.5}),
        ("sizes", {"unknown": 1}),
        ("sizes", 900),
        ("thresholds", {"same": 2}),
        ("thresholds", {"merge": "0.6"}),
        ("thresholds", {"open_below": float("nan")}),
        ("thresholds", []),
        ("coreference", "yes"),
    ],
)
def test_sizes_and_thresholds_that_cannot_be_are_refused(name, part, wrong, tmp_path):
    """With a window of no tokens, every letter of a turn was a call."""
    write(tmp_path / "x", PROGRAMS[name](), name)

    def change(table):
        table["hparams"][part] = wrong if not isinstance(wrong, dict) else table["hparams"][part] | wrong

    rewrite(tmp_path / "x", "manifest.json", change)
    with pytest.raises(ArtifactError, match="hyperparameters do not fit"):
        load(tmp_path / "x")


def test_hyperparameters_of_an_agent_are_checked_too(tmp_path):
    write(tmp_path / "x", MemoryAgent(), "memory_agent")
    rewrite(tmp_path / "x", "manifest.json", lambda t: t["hparams"].update(judge={}))
    with pytest.raises(ArtifactError, match="hyperparameters do not fit"):
        load(tmp_path / "x")


def test_all_differences_of_the_contract_are_listed_and_nothing_changes(folder):
    def change(table):
        contract = table["predictors"]["answer_question"]
        contract["inputs"] = [["question", '{"type": "string"}'], ["context", '{"type": "integer"}'], ["old", "{}"]]
        table["predictors"]["judge"] = contract | {"step": "judge"}

    rewrite(folder, "manifest.json", change)
    mine = Answerer()
    before = prompts(mine)
    with pytest.raises(ArtifactError) as error:
        load(folder, mine)
    assert error.value.differences == (
        "predictor 'judge' is in the artifact and not in the program",
        "answer_question.inputs: field 'old' is gone",
        "answer_question.inputs: field 'context' has another type",
        "answer_question.inputs: the order was ['question', 'context'] and is ['context', 'question']",
    )
    assert all(difference in str(error.value) for difference in error.value.differences)
    assert prompts(mine) == before


def test_a_program_that_fails_midway_leaves_the_one_given_as_it_was(compiled, tmp_path):
    write(tmp_path / "x", compiled["researcher"], "researcher")
    rewrite(tmp_path / "x", "program.json", lambda t: t["compose_context"]["demos"][0]["reply"].update(claims=7))
    mine = Researcher()
    before = prompts(mine)
    with pytest.raises(ArtifactError, match="ComposeReply"):
        load(tmp_path / "x", mine)
    assert prompts(mine) == before


def test_a_prompt_that_reads_differently_is_one_warning(folder, caplog, monkeypatch):
    original = StepAdapter.format_system_message
    monkeypatch.setattr(StepAdapter, "format_system_message", lambda self, s: original(self, s) + "\nNew words.")
    with caplog.at_level(logging.WARNING, "stitchjam"):
        load(folder)
    (record,) = caplog.records
    assert "prompts of answer_question read differently" in record.getMessage()


def test_an_unchanged_prompt_is_no_warning(folder, caplog):
    load(folder)
    assert caplog.records == []


# ------------------------------------------------------------------ writing


@pytest.mark.parametrize("secret", ["sk-1234567890", 'quo"ted\\secret', "two\nlines of it"])
def test_a_key_in_a_prompt_is_refused_and_nothing_is_written(secret, answerer, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", secret)
    predictor_of(answerer).demos[0]["question"] = f"is it {secret}?"
    with pytest.raises(UsageError, match=r"\$MY_API_KEY") as error:
        write(tmp_path / "x", answerer)
    assert secret not in str(error.value) and list(tmp_path.iterdir()) == []
    instructed = Answerer(answer_question=AnswerQuestion.with_instructions(f"Use {secret}"))
    with pytest.raises(UsageError, match=r"\$MY_API_KEY"):
        write(tmp_path / "x", instructed)
    with pytest.raises(UsageError, match=r"manifest.json would hold"):
        write(tmp_path / "x", Answerer(), recipe={"note": secret})


def test_a_predictor_with_its_own_model_is_refused(answerer, tmp_path):
    setattr(predictor_of(answerer), "lm", scripted_lm({}))  # noqa: B010 - the house forbids the plain form
    with pytest.raises(UsageError, match="model of their own"):
        write(tmp_path / "x", answerer)


def test_config_that_is_no_sampling_is_refused(answerer, tmp_path):
    predictor_of(answerer).config = {"api_base": "http://127.0.0.1"}
    with pytest.raises(UsageError, match="api_base"):
        write(tmp_path / "x", answerer)


def test_a_demo_that_json_cannot_hold_is_refused(answerer, tmp_path):
    predictor_of(answerer).demos[0]["question"] = {1, 2}
    with pytest.raises(UsageError, match="JSON"):
        write(tmp_path / "x", answerer)
    assert list(tmp_path.iterdir()) == []


def test_an_older_artifact_is_replaced(folder):
    write(folder, Answerer(context_tokens=9))
    assert predictor_of(load(folder)).demos == []
    assert [path.name for path in folder.parent.iterdir()] == ["made"]


def test_an_empty_folder_can_be_used(answerer, tmp_path):
    (tmp_path / "x").mkdir()
    write(tmp_path / "x", answerer)
    assert read_manifest(tmp_path / "x").published


@pytest.mark.parametrize("file", ["notes.txt", "manifest.json"])
def test_a_foreign_folder_is_left_alone(file, answerer, tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / file).write_text('{"name": "my web app"}')
    with pytest.raises(UsageError, match="is not an artifact"):
        write(tmp_path / "x", answerer)
    assert (tmp_path / "x" / file).read_text() == '{"name": "my web app"}'


def test_files_of_yours_beside_an_artifact_are_not_deleted(folder, answerer):
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="also holds notes.txt"):
        write(folder, answerer)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_file_is_no_place_for_an_artifact(answerer, tmp_path):
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError, match="is a file"):
        write(tmp_path / "x", answerer)
    check_target(tmp_path / "nothing yet")


def test_a_link_to_an_artifact_stays_a_link(folder):
    link = folder.parent / "link"
    link.symlink_to(folder)
    write(link, Answerer(context_tokens=9))
    assert link.is_symlink() and load(link).hparams() == load(folder).hparams() == {"context_tokens": 9}


class Killed(BaseException):
    """Stands for kill -9: nothing of ours may run after it."""


@pytest.mark.parametrize("survived", range(11))
@pytest.mark.parametrize("there_before", [True, False])
def test_killed_while_writing_it_leaves_the_old_or_the_new(survived, there_before, tmp_path, monkeypatch):
    folder = tmp_path / "x"
    if there_before:
        write(folder, Answerer(context_tokens=1))
    steps = iter(range(100))

    def dying(original):
        def step(*args, **kwargs):
            if next(steps) >= survived:
                raise Killed
            return original(*args, **kwargs)

        return step

    with monkeypatch.context() as patched:
        for name in ("rename", "write_bytes", "chmod"):
            patched.setattr(Path, name, dying(getattr(Path, name)))
        patched.setattr(publish.shutil, "rmtree", dying(publish.shutil.rmtree))
        try:
            write(folder, Answerer(context_tokens=2))
        except Killed:
            pass
    left = sorted(path.name for path in tmp_path.iterdir())
    if there_before or "x" in left:
        assert load(folder).hparams()["context_tokens"] in (1, 2)
        assert open_program(str(folder))[0] == "answerer"
    else:
        with pytest.raises(ArtifactError, match="there is no"):
            load(folder)
    write(folder, Answerer(context_tokens=3))
    assert load(folder).hparams() == {"context_tokens": 3} and not set_aside(folder).exists()


def test_when_the_new_one_cannot_be_moved_the_old_one_is_put_back(folder, monkeypatch):
    before = (folder / "program.json").read_bytes()
    original = Path.rename

    def rename(self: Path, target: Path):
        if target == folder and self != set_aside(folder):
            raise OSError("disk full")
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="disk full"):
        write(folder, Answerer())
    assert (folder / "program.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["made"]


def test_two_writers_at_once_leave_one_whole_artifact(tmp_path):
    start = threading.Barrier(2)

    def run(tokens: int) -> None:
        start.wait()
        for _ in range(10):
            write(tmp_path / "x", Answerer(context_tokens=tokens))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (1, 2)))
    assert load(tmp_path / "x").hparams()["context_tokens"] in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_is_read_while_it_is_replaced_is_whole(tmp_path):
    write(tmp_path / "x", Answerer(context_tokens=1))
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: [write(tmp_path / "x", Answerer(context_tokens=n)) for n in (1, 2) * 10])
        while not writing.done():
            assert load(tmp_path / "x").hparams()["context_tokens"] in (1, 2)
        writing.result()


def test_prompts_are_written_for_people(folder, answerer):
    text = (folder / "prompts.md").read_text()
    assert text.startswith("# answer_question") and "## system" in text and "{question}" in text
    assert predictor_of(answerer).demos[0]["question"] in text


def test_a_prompt_cannot_leave_its_block_in_the_page_for_people(answerer, tmp_path):
    predictor_of(answerer).demos[0]["question"] = "x\n```\n# fake heading\n````"
    write(tmp_path / "x", answerer)
    lines = (tmp_path / "x" / "prompts.md").read_text().splitlines()
    before = lines[: lines.index("# fake heading")]
    assert "`````text" in before and "`````" not in before[before.index("`````text") :]


class Shouting(Program):
    """A program of a user's own."""

    def __init__(self):
        super().__init__()
        self.shout = Step(AnswerQuestion)

    def forward(self, question: str) -> dspy.Prediction:
        return self.shout(context="c1 | x", question=question)


def test_a_program_of_your_own_goes_there_and_back(tmp_path):
    mine = Shouting()
    reply = AnswerReply(sources=["c1"], answer="x")
    mine.shout.demos = [dspy.Example(context="c1 | x", question="q", reply=reply, augmented=True)]
    write(tmp_path / "x", mine, "shouting")
    assert prompts(load(tmp_path / "x", program=Shouting()), "real") == prompts(mine, "real")
