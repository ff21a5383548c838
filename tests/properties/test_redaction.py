"""What must hold for every secret: no form of it is left in any text, and ordinary text stays as it was."""

import string
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from json import dumps, loads
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.properties.examples import bounded
from tests.properties.growth import grows_evenly

from metier.record.journal import event_line
from metier.record.redaction import (
    HIDDEN,
    Redactor,
    hide_strings,
    is_ordinary_value,
    is_secret_name,
    url_secrets,
)
from metier.types.activation import Message, ToolCall
from metier.types.event import Asked, Ended, Heard, Nested, Replied, Used

# Brackets are left out: a value that is made of the mark itself can't be told from it.
LETTERS = string.ascii_letters + string.digits + "/+=_-.!@#$%^&*()'\"\\ ~:;äß密🔑"
SECRETS = st.text(LETTERS, min_size=6, max_size=80).filter(
    lambda text: text == text.strip() and not is_ordinary_value(text)
)
AROUND = st.text(st.characters(codec="utf-8", exclude_characters="[]"), max_size=40)


def wrapped(text: str, width: int) -> str:
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def with_separators(data: bytes, between: str) -> str:
    return between.join(f"{byte:02x}" for byte in data)


FORMS: dict[str, Callable[[bytes, str, bytes], str]] = {
    "plain": lambda before, secret, after: secret,
    "reversed": lambda before, secret, after: secret[::-1],
    "JSON": lambda before, secret, after: dumps(secret),
    "JSON without ASCII escapes": lambda before, secret, after: dumps(secret, ensure_ascii=False),
    "base64": lambda before, secret, after: b64encode(before + secret.encode() + after).decode(),
    "url-safe base64": lambda before, secret, after: urlsafe_b64encode(before + secret.encode() + after).decode(),
    "base64 in lines": lambda before, secret, after: wrapped(b64encode(before + secret.encode() + after).decode(), 76),
    "base64 in short lines": lambda before, secret, after: wrapped(b64encode(before + secret.encode()).decode(), 5),
    "base64 in a URL": lambda before, secret, after: quote(b64encode(before + secret.encode()).decode(), safe=""),
    "hex": lambda before, secret, after: (before + secret.encode() + after).hex(),
    "upper-case hex": lambda before, secret, after: (before + secret.encode() + after).hex().upper(),
    "hex with blanks": lambda before, secret, after: with_separators(secret.encode(), " "),
    "hex with colons": lambda before, secret, after: with_separators(secret.encode(), ":"),
    "hex escapes": lambda before, secret, after: "".join(f"\\x{byte:02x}" for byte in secret.encode()),
    "URL-encoded": lambda before, secret, after: quote(secret, safe=""),
    "URL-encoded but for slashes": lambda before, secret, after: quote(secret),
    "URL-encoded as a form": lambda before, secret, after: quote_plus(secret),
    "URL-encoded whole": lambda before, secret, after: "".join(f"%{byte:02X}" for byte in secret.encode()),
    "URL-encoded in lower case": lambda before, secret, after: "".join(f"%{byte:02x}" for byte in secret.encode()),
}


@pytest.mark.parametrize("form", FORMS)
@bounded(60)
@given(secret=SECRETS, before=AROUND, after=AROUND, padding=st.binary(max_size=5), rest=st.binary(max_size=5))
@example(secret="/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYx", before="", after="", padding=b"x", rest=b"")
def test_no_form_of_a_secret_is_left_whatever_stands_around_it(form, secret, before, after, padding, rest):
    written = FORMS[form](padding, secret, rest)
    assume(written not in before + after)

    hidden = Redactor([secret])(before + written + after)

    assert written not in hidden
    assert HIDDEN in hidden
    assert secret not in hidden


@bounded(200)
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_what_stands_around_a_secret_stays(secret, before, after):
    assume(secret not in before + after and secret[::-1] not in before + secret + after)
    text = f"{before}\n<{secret}>\n{after}"
    assume(Redactor()(text) == text and Redactor([secret])(before) == before and Redactor([secret])(after) == after)

    assert Redactor([secret])(text).replace(HIDDEN, secret) == text


@bounded(200)
@given(secret=SECRETS, text=AROUND)
def test_hiding_twice_is_hiding_once(secret, text):
    hide = Redactor([secret])
    once = hide(text + secret + text)

    assert hide(once) == once


@bounded(100)
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_nothing_in_an_event_keeps_a_secret(secret, before, after):
    text = f"{before}{secret}{after}"
    call = ToolCall("1", "run_command", {"command": text, "more": [text, {text: 1}]})
    message = Message("tool", text, call, raw=dumps({"text": text}))
    hide = Redactor([secret])
    for event in (
        Heard(text, messages=(message,)),
        Replied(text, (call,), messages=(message,)),
        Asked("1", "approval", "run_command", text, {"command": text}, (text,), why=text, change=text),
        Used(call, text, note=text, messages=(message,)),
        Nested("r", "agent", Ended("failed", text, text, text, messages=(message,))),
    ):
        line = event_line(hide_strings(event, hide))
        assert secret not in line
        assert dumps(secret)[1:-1] not in line
        loads(line)


def test_an_event_without_a_secret_is_the_same_object():
    event = Used(ToolCall("1", "x", {"a": ["b", {"c": 1}]}), "text", messages=(Message("tool", "text"),))

    assert hide_strings(event, Redactor(["tell-nobody-123"])) is event


@pytest.mark.parametrize(
    "name",
    [
        "DB_PASS",
        "GITHUB_PAT",
        "KEY_PROD",
        "TOKEN_2",
        "MY_API_KEY",
        "APIKEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "SSHPASS",
        "AWS_SECRET_ACCESS_KEY",
        "STRIPE_KEYS",
        "githubToken",
        "SENTRY_DSN",
        "SLACK_WEBHOOK_URL",
        "NPM_AUTH",
        "X_CREDS",
        "KEY",
    ],
)
def test_a_name_gives_a_secret_away_wherever_its_word_stands(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["PATH", "LANG", "KEYBOARD", "AUTHOR", "GIT_AUTHOR_NAME", "COMPAT", "PATTERN"])
def test_an_ordinary_name_gives_nothing_away(name):
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        "true",
        "prod",
        "en_US.UTF-8",
        "C.UTF-8",
        "de",
        "8080",
        "3.11.7",
        "2026",
        "production",
        "Europe/Berlin",
        "https://api.example.com",
        "http://localhost:11434/",
        "default",
    ],
)
def test_values_of_ordinary_text_are_not_hidden(value):
    text = f"set it to {value} and go on"

    assert is_ordinary_value(value)
    assert Redactor([value])(text) == text


@pytest.mark.parametrize(
    "token",
    [
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "11ABCDEFG0" * 4,
        "glpat-" + "x9Y8z7W6v5" * 2,
        "sk-ant-api03-" + "Ab1_-" * 8,
        "sk-proj-" + "Ab1_-" * 8,
        "sk-" + "0aB1" * 12,
        "sk_live_" + "0aB1" * 6,
        "xoxb-1234567890-abcdefghij",
        "AKIA" + "ABCDEFGH12345678",
        "AIza" + "a1B2c" * 7,
        "npm_" + "a1B2" * 9,
        "pypi-AgE" + "IcHlwaS5vcmc" * 5,
        "hf_" + "aB1" * 11,
        "SG." + "a1B2" * 5 + "." + "c3D4" * 8,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    ],
)
def test_a_token_is_known_by_its_shape_although_nobody_lent_it(token):
    assert Redactor()(f"curl -H 'Authorization: {token}' …") == f"curl -H 'Authorization: {HIDDEN}' …"
    assert Redactor()(f"TOKEN={token}\nnext") == f"TOKEN={HIDDEN}\nnext"


def test_a_private_key_is_hidden_between_its_lines_and_to_the_end_if_it_was_cut_off():
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----"

    assert "b3Blbn" not in Redactor()(f"a\n{key}\nb")
    assert Redactor()(f"a\n{key}\nb").endswith("-----END OPENSSH PRIVATE KEY-----\nb")
    assert "b3Blbn" not in Redactor()(key[:50])


def test_a_password_in_a_url_is_hidden_and_the_rest_of_it_stays():
    assert Redactor()("fetch https://me:s3cret!@host/x now") == f"fetch https://me:{HIDDEN}@host/x now"
    assert Redactor()("redis://:p%40ss@host") == f"redis://:{HIDDEN}@host"
    assert list(url_secrets("postgres://u:p%40ssword@h/db")) == ["p%40ssword", "p@ssword"]
    for example_url in ("https://user:password@host", "https://${USER}:${PASS}@host", "https://host:8080/a@b"):
        assert Redactor()(example_url) == example_url


def test_the_lines_of_a_long_key_are_secrets_of_their_own():
    hide = Redactor(["-----BEGIN KEY-----\nQUJDREVGR0hJSktMTU5P\nUFFSU1RVVldYWVphYmNk\n-----END KEY-----"])

    assert "UFFSU1RVVldYWVphYmNk" not in hide("tail -2 prints UFFSU1RVVldYWVphYmNk")


HOSTILE = (
    "eyJ",
    "eyJaaaaaaaa.",
    "eyJ-",
    "sk-ant-",
    "sk-",
    "ghp_",
    "://a:",
    "://",
    "a@",
    "-----BEGIN PRIVATE KEY-----",
    "PRIVATE KEY",
    "%41",
    "%",
    "6 1 ",
    "tell-nobody-",
    "\\n",
    "\\x",
    "0x",
    "xoxb-1-",
    "SG.aaaaaaaaaaaaaaaaaaaa.",
    "dGVsbC1ub2JvZHk",
    "hooks.slack.com/services/",
    "discord.com/api/webhooks/1234567890",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_work_grows_no_faster_than_the_text(piece):
    hide = Redactor(["tell-nobody-123", "/another secret+value"])

    assert grows_evenly(hide, piece, 30_000)
