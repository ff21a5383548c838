from metier.types.words import STOP, stem, terms


def test_terms_are_small_letters_without_endings_and_without_stop_words():
    assert terms("Deploying the Deployments of our services") == ["deploy", "deployment", "servic"]


def test_words_of_one_family_are_one_term():
    assert {stem(word) for word in ("test", "tests", "testing", "tested")} == {"test"}
    assert {stem(word) for word in ("price", "prices", "pricing", "priced")} == {"pric"}
    assert stem("queries") == stem("query")


def test_a_name_in_camel_case_is_itself_and_its_parts():
    assert terms("ReportExporterTests") == ["reportexportertest", "report", "exporter", "test"]


def test_scripts_without_blanks_are_taken_by_pairs():
    assert terms("部署服务") == ["部署", "署服", "服务"]
    assert terms("部") == ["部"]
    assert terms("用 Docker 部署") == ["用", "docker", "部署"]


def test_korean_syllables_stay_whole_and_accents_go():
    assert terms("배포 도구") == ["배포", "도구"]
    assert terms("Café naïve") == terms("cafe naive")


def test_what_is_no_word_is_cut_short():
    assert terms("a" * 500) == ["a" * 40]


def test_no_text_has_no_terms():
    assert terms("") == terms("the of and") == terms("… — !") == []
    assert "the" in STOP
