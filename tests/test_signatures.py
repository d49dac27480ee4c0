"""Every step has its own signature and one small closed reply, and what models write is read or refused predictably."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from stitchjam.backends.adapter import reply_model
from stitchjam.signatures import JUDGE_STEPS, STEPS, step_name
from stitchjam.signatures.answer import AnswerReply
from stitchjam.signatures.jam import BrowseReply, ComposeReply, CoverReply, NextReply, PlanFirst, PlanReply
from stitchjam.signatures.judge import MatchReply, VerdictReply
from stitchjam.signatures.reply import Action, Label

label = TypeAdapter(Label).validate_python


def reply_of(step: str):
    model = reply_model(STEPS[step])
    assert model is not None
    return model[1]


def unbounded(schema: object, place: str = "") -> list[str]:
    """Strings without maxLength or enum, and arrays without maxItems, anywhere in a JSON schema."""
    if isinstance(schema, list):
        return [hit for item in schema for hit in unbounded(item, place)]
    if not isinstance(schema, dict):
        return []
    found = []
    if schema.get("type") == "string" and "maxLength" not in schema and "enum" not in schema:
        found.append(place)
    if schema.get("type") == "array" and "maxItems" not in schema:
        found.append(place)
    return found + [hit for key, part in schema.items() for hit in unbounded(part, f"{place}/{key}")]


def test_step_names_are_snake_case():
    assert step_name(PlanFirst) == "plan_first"
    assert JUDGE_STEPS == {"judge_answer", "match_candidates"} <= set(STEPS)
    assert set(STEPS) == {
        "answer_from_knowledge",
        "answer_question",
        "browse_source",
        "compose_context",
        "detect_scope",
        "focus_roles",
        "group_memos",
        "judge_answer",
        "judge_sufficiency",
        "judge_useful",
        "label_turn",
        "match_candidates",
        "merge_labels",
        "plan_first",
        "plan_next",
        "rank_turns",
        "read_intent",
        "seed_vocabulary",
        "segment_history",
        "select_labels",
        "type_entities",
        "type_event",
        "write_gist",
        "write_memo",
        "write_note",
        "write_readme",
    }


def test_no_two_steps_look_alike_to_an_optimizer():
    signatures = list(STEPS.values())
    assert len({signature.signature for signature in signatures}) == len(signatures)
    assert len({signature.instructions for signature in signatures}) == len(signatures)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_one_reply_model_with_a_required_field(step):
    assert any(field.is_required() for field in reply_of(step).model_fields.values())
    with pytest.raises(ValidationError):
        reply_of(step).model_validate({})


@pytest.mark.parametrize("step", STEPS)
def test_every_list_and_string_of_a_reply_is_bounded(step):
    assert unbounded(reply_of(step).model_json_schema()) == []


@pytest.mark.parametrize("step", STEPS)
def test_a_reply_schema_has_no_union(step):
    text = json.dumps(reply_of(step).model_json_schema())
    assert "anyOf" not in text and "oneOf" not in text


@pytest.mark.parametrize("step", sorted(STEPS.keys() - {"answer_from_knowledge"}))  # which is shown no memory
def test_a_step_says_what_memory_text_is(step):
    described = [str(field.json_schema_extra) for field in STEPS[step].input_fields.values()]
    assert any("quoted data only" in text for text in described)


@pytest.mark.parametrize(
    "written", ["c3", "C3", " c3 ", "[c3]", "(C3)", "**c3**", "c3.", "c3: Mira said so", "c 3", "c03", "c3 | 2026"]
)
def test_a_label_is_read_from_what_surrounds_it(written):
    assert label(written) == "c3"


@pytest.mark.parametrize(
    "written", ["3", "none", "", "None", "c9999", "cc3", "the third", "c", "?", None, 3, 2.5, True]
)
def test_what_is_no_label_is_none(written):
    assert label(written) == "none"


@pytest.mark.parametrize("written", [["c3"], {"label": "c3"}])
def test_a_label_of_another_shape_is_an_error(written):
    with pytest.raises(ValidationError):
        label(written)


def test_none_is_a_valid_cover():
    assert CoverReply.model_validate({"entry": None}).entry == "none"


@pytest.mark.parametrize(("written", "tool"), [("search", "search"), ("`Browse`", "browse"), ("Search.", "search")])
def test_a_tool_is_read_without_decoration(written, tool):
    assert Action.model_validate({"tool": written, "target": "none", "query": "x"}).tool == tool


@pytest.mark.parametrize("written", ["close", "", "searching", None, 1])
def test_an_unknown_tool_is_an_error(written):
    with pytest.raises(ValidationError):
        Action.model_validate({"tool": written, "target": "none", "query": "x"})


@pytest.mark.parametrize(("query", "words"), [("none", ""), (" None ", ""), ("", ""), (None, ""), (" a b ", "a b")])
def test_a_query_that_says_none_has_no_words(query, words):
    assert Action.model_validate({"tool": "browse", "target": "c1", "query": query}).words == words


def test_a_long_query_is_cut_and_does_not_void_the_plan():
    action = {"tool": "search", "target": "none", "query": "word " * 100}
    assert len(NextReply.model_validate({"actions": [action]}).actions[0].query) == 120


def test_more_items_than_allowed_are_cut():
    action = {"tool": "search", "target": "none", "query": "x"}
    assert len(PlanReply.model_validate({"needs": list("abcdef"), "actions": [action] * 9}).needs) == 3
    assert len(NextReply.model_validate({"actions": [action] * 9}).actions) == 5
    assert BrowseReply.model_validate({"lines": [f"t{n}" for n in range(1, 20)]}).lines[-1] == "t4"
    claims = [{"entry": "e1", "claim": "x"}] * 9
    assert len(ComposeReply.model_validate({"claims": claims}).claims) == 6


def test_extra_keys_of_a_chatty_model_are_ignored():
    reply = AnswerReply.model_validate({"thought": "hm", "sources": ["C1"], "answer": "yes", "confidence": 0.9})
    assert reply.model_dump() == {"sources": ["c1"], "answer": "yes"}


def test_a_plan_without_needs_is_an_error():
    with pytest.raises(ValidationError):
        PlanReply.model_validate({"needs": [], "actions": []})


@pytest.mark.parametrize(
    ("written", "verdict"),
    [
        ("CORRECT", "CORRECT"),
        ("Correct.", "CORRECT"),
        (" **correct** ", "CORRECT"),
        ("yes", "CORRECT"),
        (True, "CORRECT"),
        ("WRONG", "WRONG"),
        ("incorrect!", "WRONG"),
        ("No.", "WRONG"),
        (False, "WRONG"),
    ],
)
def test_a_verdict_is_read_without_decoration(written, verdict):
    assert VerdictReply.model_validate({"missing": "", "verdict": written}).verdict == verdict


@pytest.mark.parametrize(
    "written", ["not correct", "partly", "correct or wrong", "CORRECT, but", "", None, 1, [], "maybe"]
)
def test_what_is_no_verdict_is_an_error(written):
    with pytest.raises(ValidationError, match="CORRECT"):
        VerdictReply.model_validate({"missing": "", "verdict": written})


def test_a_long_note_or_none_does_not_void_the_verdict():
    assert len(VerdictReply.model_validate({"missing": "word " * 100, "verdict": "no"}).missing) == 160
    assert VerdictReply.model_validate({"missing": None, "verdict": "yes"}).missing == ""


def test_more_pairs_than_allowed_are_cut():
    assert len(MatchReply.model_validate({"pairs": [{"reference": "G1", "answer": "[a2]"}] * 20}).pairs) == 12


def test_half_a_surrogate_pair_in_a_reply_is_an_error():
    with pytest.raises(ValidationError):
        AnswerReply.model_validate({"sources": [], "answer": "\ud83d"})


def test_replies_are_frozen():
    with pytest.raises(ValidationError):
        CoverReply(entry="e1").entry = "e2"  # pyright: ignore[reportAttributeAccessIssue]


def action(**fields):
    return {"tool": "browse", "target": "c1", "query": "boat"} | fields


@pytest.mark.parametrize(
    "flaw",
    [action(tool="finish"), {"tool": 3}, "browse c1", None, 7, {"target": "c1"}],
)
def test_a_bad_action_costs_no_other(flaw):
    reply = PlanReply.model_validate({"needs": ["the boat"], "actions": [action(), flaw, action(target="c2")]})
    assert [one.target for one in reply.actions] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"query": None}, ""),
        ({"query": ["red", "boat"]}, "red, boat"),
        ({"query": 12}, "12"),
        ({"query": "half \ud800"}, "half ?"),
    ],
)
def test_a_query_of_any_form_is_read(given, read):
    assert Action.model_validate(action(**given)).query == read
    assert Action.model_validate({"tool": "browse", "target": "c1"}).query == ""


def test_needs_and_claims_that_are_too_long_are_cut_and_single_ones_are_lists():
    assert len(PlanReply.model_validate({"needs": "word " * 40, "actions": action()}).needs[0]) <= 120
    reply = ComposeReply.model_validate(
        {"claims": [{"entry": "e1", "claim": "word " * 60}, {"entry": "e2", "claim": ""}]}
    )
    assert [one.entry for one in reply.claims] == ["e1"] and len(reply.claims[0].claim) <= 200
    assert BrowseReply.model_validate({"lines": "t1"}).lines == ["t1"]
    assert BrowseReply.model_validate({"lines": None}).lines == []


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("f1", "f1"),
        ("[c03]", "c3"),
        ("C3: Mira said", "c3"),
        ("c2 | 2026-01", "c2"),
        ("f1-race-weekend/plans", "f1-race-weekend/plans"),
        ("q3-report", "q3-report"),
        ("q3 budget/plan", "q3 budget/plan"),
    ],
)
def test_a_path_that_begins_like_a_label_is_a_path(target, read):
    assert Action.model_validate(action(target=target)).target == read
