from metier.catalog.tokens import STOP_WORDS, search_terms, stem_word


def test_terms_are_small_letters_without_endings_and_without_stop_words():
    assert search_terms("Deploying the Deployments of our services") == ["deploy", "deployment", "servic"]


def test_words_of_one_family_are_one_term():
    assert {stem_word(word) for word in ("test", "tests", "testing", "tested")} == {"test"}
    assert {stem_word(word) for word in ("price", "prices", "pricing", "priced")} == {"pric"}
    assert stem_word("queries") == stem_word("query")


def test_a_name_in_camel_case_is_itself_and_its_parts():
    assert search_terms("ReportExporterTests") == ["reportexportertest", "report", "exporter", "test"]


def test_scripts_without_blanks_are_taken_by_pairs():
    assert search_terms("部署服务") == ["部署", "署服", "服务"]
    assert search_terms("部") == ["部"]
    assert search_terms("用 Docker 部署") == ["用", "docker", "部署"]


def test_korean_syllables_stay_whole_and_accents_go():
    assert search_terms("배포 도구") == ["배포", "도구"]
    assert search_terms("Café naïve") == search_terms("cafe naive")


def test_what_is_no_word_is_cut_short():
    assert search_terms("a" * 500) == ["a" * 40]


def test_no_text_has_no_terms():
    assert search_terms("") == search_terms("the of and") == search_terms("… — !") == []
    assert "the" in STOP_WORDS
