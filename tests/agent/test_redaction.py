"""What a skill was lent is in nothing that is shown, sent or kept."""

import json
from dataclasses import replace

import pytest
from tests.agent.talking import call, spoken
from tests.home import World, write_skill

from metier.agent.agent import Agent, preview_request
from metier.library.grants import secret_values
from metier.record.redaction import Redactor
from metier.testing.models import ScriptedModel
from metier.types.errors import ModelError
from metier.types.event import Ended, Used

LENT = "correct horse/battery+staple"
SCRIPT = """
import base64, os, sys
from urllib.parse import quote
value = os.environ.get("WEATHER", "")
data = value.encode()
print(value, value[::-1], quote(value, safe=""), data.hex())
for before in (b"", b"u", b"u:"):
    print(base64.b64encode(before + data).decode(), base64.urlsafe_b64encode(before + data + b"!").decode())
print("complaint:", value, file=sys.stderr)
"""
FORMS = (
    LENT,
    LENT[::-1],
    "correct%20horse",
    LENT.encode().hex(),
    "Y29ycmVjdCBob3JzZS9iYXR0ZXJ5K3N0YXBsZ",
    "NvcnJlY3QgaG9yc2UvYmF0dGVyeStzdGFwbG",
)


def lender(world: World, name: str = "weather", variable: str = "WEATHER", body: str = "Look outside.\n") -> None:
    """A skill that is lent a variable whose name says nothing, and a script that prints it."""
    more = f"metadata:\n  metier:\n    permissions:\n      env: [{variable}]\n"
    file = write_skill(world.home / ".metier/skills" / name, "Tells the weather.", body, more)
    (file.parent / "scripts").mkdir(exist_ok=True)
    (file.parent / "scripts" / "look.py").write_text(SCRIPT)
    world.approve(world.open(place=lent_place(world)), name)


def lent_place(world: World, **more: str):
    return world.place(env={"PATH": "/usr/local/bin:/usr/bin:/bin", "WEATHER": LENT, **more})


def used(events) -> list[Used]:
    return [event for event in events if isinstance(event, Used)]


def shown(events: object) -> str:
    return repr(events)


def leaks(text: str) -> list[str]:
    return [form for form in FORMS if form in text or json.dumps(form)[1:-1] in text]


def test_what_a_script_was_lent_is_in_no_event_no_request_and_no_journal(world: World):
    lender(world)
    model = ScriptedModel([call("skill_run_script", skill_name="weather", script_name="look.py"), f"It is {LENT}."])
    talk = Agent(world.open(place=lent_place(world)), model).start()
    events = spoken(talk, f"is it {LENT} today?", "once")

    assert "[hidden]" in used(events)[0].text
    assert "complaint: [hidden]" in used(events)[0].text
    assert leaks(shown(events)) == []
    assert leaks(shown(model.requests)) == []
    assert leaks((world.state / "runs" / f"{talk.run}.jsonl").read_text()) == []


def test_what_a_command_in_a_body_prints_is_hidden_before_anybody_gets_it(world: World):
    lender(world, body='It is !`printf %s "$WEATHER" | base64` and !`printf %s "$WEATHER"` now.\n')
    library = world.open("claude", root=world.home / ".metier/skills", place=lent_place(world))
    activation = library.activate("weather")

    assert activation.text.count("[hidden]") == 2
    assert leaks(shown(activation)) == []
    assert leaks(preview_request(Agent(library, ScriptedModel()), f"/weather {LENT}")) == []


def test_a_framework_that_calls_the_tools_gets_no_secret(world: World):
    lender(world)
    library = world.open(place=lent_place(world))
    answered = library.handle(
        {
            "type": "tool_use",
            "id": "1",
            "name": "skill_run_script",
            "input": {"skill_name": "weather", "script_name": "look.py"},
        }
    )

    assert "[hidden]" in shown(answered)
    assert leaks(shown(answered)) == []


def test_a_file_of_a_skill_that_holds_what_was_lent_is_read_without_it(world: World):
    lender(world)
    (world.home / ".metier/skills/weather/notes.md").write_text(f"the password is {LENT}\n")
    library = world.open(place=lent_place(world))
    tool = next(tool for tool in library.tools() if tool.name == "skill_read_file")

    answer = tool.call({"skill_name": "weather", "file_path": "notes.md"})
    assert answer.text == "the password is [hidden]\n"


def test_what_a_skill_that_appears_later_is_lent_is_hidden_too(world: World):
    lender(world)
    place = lent_place(world, TIDES="at-six-and-eighteen")
    (world.project / "tides.txt").write_text("at-six-and-eighteen\n")
    model = ScriptedModel([call("read_file", path="tides.txt"), "Seen.", call("read_file", path="tides.txt"), "Gone."])
    talk = Agent(world.open(place=place), model).start()
    assert used(spoken(talk, "look"))[0].text == "at-six-and-eighteen\n"
    lender(world, "tides", "TIDES")
    talk.update(talk.library.reload())

    assert used(spoken(talk, "look again"))[0].text == "[hidden]\n"


def test_an_error_that_quotes_a_secret_ends_a_turn_without_it(world: World):
    lender(world)
    model = ScriptedModel([ModelError(f"the service refused {LENT}", f"check {LENT}")])
    events = spoken(Agent(world.open(place=lent_place(world)), model).start(), "go")

    assert isinstance(events[-1], Ended)
    assert leaks(shown(events)) == []
    assert "[hidden]" in events[-1].text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASS", "hunter2"),
        ("GITHUB_PAT", "abcdefgh1234"),
        ("KEY_PROD", "abcdefgh1234"),
        ("TOKEN_2", "abcdefgh1234"),
        ("AWS_SECRET_ACCESS_KEY", "/bPxRfiCYEXAMPLEKEYwJalrXUtnFEMIK7MDENGx"),
    ],
)
def test_a_name_or_a_slash_does_not_save_a_secret(world: World, name: str, value: str):
    library = world.open(place=world.place(env={name: value}))

    assert library.hide(f"it is {value}.") == "it is [hidden]."


def test_the_password_of_a_url_is_a_secret_whatever_the_variable_is_called(world: World):
    library = world.open(place=world.place(env={"DATABASE": "postgres://me:open%40sesame@db.example.com/x"}))

    assert library.hide("open@sesame, open%40sesame, db.example.com") == "[hidden], [hidden], db.example.com"


def test_paths_that_exist_and_values_that_every_program_gets_stay_readable(world: World):
    lender(world, variable="[HOME, LANG, PATH, USER, KEYRING_PATH]"[1:-1])
    env = {"HOME": str(world.home), "LANG": "en_US.UTF-8", "PATH": "/usr/bin:/bin", "USER": "somebody"}
    library = world.open(place=world.place(env=env | {"KEYRING_PATH": str(world.project), "MY_KEY": str(world.home)}))
    text = f"somebody works in {world.home} and {world.project} with en_US.UTF-8 and /usr/bin:/bin"

    assert library.hide(text) == text


def test_a_configured_key_is_hidden_whatever_its_variable_is_called(world: World):
    lender(world)
    world.state.mkdir(exist_ok=True)
    (world.state / "config.toml").write_text(
        '[skills.entries.weather]\napiKey = "from-the-config-1"\n[skills.entries.weather.env]\nPLACE = "under-the-mat"\n'
        '[models.mine]\nprovider = "compatible"\nurl = "http://localhost:1/v1"\nkey = "MINE"\n'
    )
    library = world.open(place=world.place(env={"MINE": "key-of-the-model"}))

    assert library.hide("from-the-config-1 under-the-mat key-of-the-model") == "[hidden] [hidden] [hidden]"


def test_a_library_without_secrets_hides_nothing_but_tokens(world: World):
    library = world.open()

    assert list(secret_values(library)) == []
    assert library.hide("an ordinary text") == "an ordinary text"


def test_a_child_agent_hides_what_its_parent_hides(world: World):
    agent = Agent(world.open(place=lent_place(world, MY_TOKEN="open-sesame-42")), ScriptedModel())

    assert replace(agent, deepest=1).hide("open-sesame-42") == "[hidden]"
    assert isinstance(agent.hide, Redactor)
