"""A body means the same in another dialect, or what it can't mean there is said."""

import pytest

from metier.activate.template import PlaceholderForms, TemplateValues, fill_pieces, split_pieces
from metier.activate.translate import translate_body
from metier.dialects import DIALECTS


def turned(body: str, old: str, new: str, names: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    found = translate_body(body, names, DIALECTS[old].authoring, DIALECTS[new].authoring)
    return found.text, list(found.losses)


def meaning(body: str, dialect: str, names: tuple[str, ...] = ()) -> str:
    """What a reader of a dialect gets for three words."""
    authoring = DIALECTS[dialect].authoring
    forms = PlaceholderForms(authoring.arguments, names, authoring.variables, authoring.rooted)
    given = TemplateValues("one two three", names, {"SKILL_DIR": "/s", "CLAUDE_SKILL_DIR": "/s"})
    return fill_pieces(split_pieces(body, forms), authoring.arguments, given)


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        ("From $1 to $2.", "umbra", "standard"),
        ("From $0 to $1.", "standard", "umbra"),
        ("All: $ARGUMENTS, $@.", "umbra", "claude"),
        ("$ARGUMENTS[1] and $0", "claude", "umbra"),
        ("$ARGUMENTS[0]5 apples", "claude", "standard"),
        ("Run ${SKILL_DIR}/scripts/x.sh", "umbra", "claude"),
        (r"It costs \$1.", "standard", "claude"),
    ],
)
def test_placeholders_keep_their_meaning(body, old, new):
    text, losses = turned(body, old, new)

    assert losses == []
    assert meaning(text, new) == meaning(body, old)


def test_names_become_numbers_where_there_are_no_names():
    text, losses = turned("Ship $what to $where.", "standard", "umbra", ("what", "where"))

    assert (text, losses) == ("Ship $1 to $2.", [])


def test_the_skills_folder_is_left_out_where_it_has_no_name():
    text, losses = turned("Run ${SKILL_DIR}/scripts/x.sh in ${SKILL_DIR}.", "standard", "multica")

    assert (text, losses) == ("Run scripts/x.sh in ..", [])


@pytest.mark.parametrize(
    ("body", "old", "new", "loss"),
    [
        ("From $1.", "umbra", "openclaw", "`$1` has no equivalent there and stays as written"),
        ("Rest: ${@:2}.", "umbra", "claude", "`${@:2}` has no equivalent there and stays as written"),
        ("It costs $1.", "openclaw", "umbra", "`$1` was plain text and is a placeholder there"),
        ("Now: !`date`", "claude", "openclaw", "commands in the body are not run there; the model sees them as text"),
        ("Now: !`date`", "agentmd", "claude", "commands run in the agent's working folder there"),
    ],
)
def test_what_can_not_be_said_is_named(body, old, new, loss):
    assert loss in turned(body, old, new)[1]


def test_plain_text_that_would_become_a_placeholder_is_escaped():
    text, losses = turned("It costs $1.", "openclaw", "standard")

    assert (text, losses) == (r"It costs \$1.", [])
    assert meaning(text, "standard") == "It costs $1."
