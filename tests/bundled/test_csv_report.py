"""The script of the bundled skill csv-report, run as an agent runs it: by its path, in a process of its own."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "src" / "metier" / "bundled" / "csv-report" / "scripts" / "report.py"

Outcome = subprocess.CompletedProcess[str]


def run(*arguments: str | Path, environment: dict[str, str] | None = None) -> Outcome:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        env={**os.environ, **(environment or {})},
        check=False,
    )


def write(folder: Path, content: str | bytes) -> Path:
    file = folder / "table.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def report(file: Path, *options: str) -> dict[str, Any]:
    outcome = run(file, "--json", *options)
    assert (outcome.returncode, outcome.stderr) == (0, "")
    found = json.loads(outcome.stdout)
    assert isinstance(found, dict)
    return found


def columns(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in found["columns"]}


def counts(column: dict[str, Any]) -> dict[str, int]:
    return {entry["value"]: entry["count"] for entry in column["top"]}


def assert_refused(outcome: Outcome, reason: str) -> None:
    assert outcome.returncode == 1
    assert outcome.stdout == ""
    assert reason in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_numbers_get_a_range_a_mean_and_a_median(tmp_path):
    found = report(write(tmp_path, "n,x\n1,0.5\n2,1.5\n6,\n"))

    n, x = found["columns"]
    assert (n["type"], n["min"], n["max"], n["mean"], n["median"]) == ("integer", 1, 6, 3, 2)
    assert (x["type"], x["min"], x["max"], x["mean"], x["median"]) == ("number", 0.5, 1.5, 1, 1)
    assert (n["missing"], x["missing"]) == (0, 1)


def test_frequent_values_come_most_frequent_first_and_ties_in_order(tmp_path):
    found = report(write(tmp_path, "c,d\nb,1\na,1\nz,1\nz,1\n"), "--top", "2")

    assert columns(found)["c"]["top"] == [{"value": "z", "count": 2}, {"value": "a", "count": 1}]
    assert columns(found)["c"]["distinct"] == 3


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "+3"], "integer"),
        (["1", "2.5", "1e3"], "number"),
        (["2024-01-31", "2024-02-29"], "date"),
        (["2024-01-31", "2024-01-31 10:00", "2024-01-31T10:00:00Z"], "datetime"),
        (["yes", "No", "TRUE"], "boolean"),
        (["00501", "10001", "02134"], "text"),
        (["2024-02-30", "31/01/2024"], "text"),
        (["1e999", "inf", "9" * 80], "text"),
        (["٣", "½", "²"], "text"),
        (["1", "2", "many"], "mixed"),
        (["", "NA", "null"], "empty"),
    ],
)
def test_the_type_is_what_all_the_values_have_in_common(tmp_path, values, kind):
    rows = "".join(f"{value},x\n" for value in values)

    assert report(write(tmp_path, f"value,other\n{rows}"))["columns"][0]["type"] == kind


def test_words_for_nothing_count_as_missing_and_are_told_apart(tmp_path):
    column = report(write(tmp_path, "a,b\n1,x\n,x\nN/A,x\nnan,x\n NULL ,x\n-,x\n"))["columns"][0]

    assert column["missing"] == 5
    assert column["missing_as"] == {"": 1, "n/a": 1, "nan": 1, "null": 1, "-": 1}
    assert column["type"] == "integer"


def test_a_misfit_in_a_column_is_named_with_its_line(tmp_path):
    found = report(write(tmp_path, "n,x\n1,a\n2,a\nmany,a\n4,a\n"))

    assert '"n": 1 of 4 values are text, first "many" in line 4' in found["notes"]
    assert columns(found)["n"]["mean"] == pytest.approx(7 / 3)


def test_dates_are_ordered_as_moments_whatever_their_zone(tmp_path):
    rows = "2024-01-01T00:30:00+02:00,x\n2023-12-31T23:00:00Z,x\n"
    column = report(write(tmp_path, f"at,x\n{rows}"))["columns"][0]

    assert (column["min"], column["max"]) == ("2024-01-01T00:30:00+02:00", "2023-12-31T23:00:00Z")


@pytest.mark.parametrize("content", [b"", b"\n \n\t\r\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path, content):
    assert_refused(run(write(tmp_path, content)), "the file is empty")


def test_a_header_without_rows_is_reported(tmp_path):
    found = report(write(tmp_path, "a,b,c\n"))

    assert found["rows"] == 0
    assert list(columns(found)) == ["a", "b", "c"]
    assert found["notes"] == ["there is a header but no rows"]


@pytest.mark.parametrize(("mark", "name"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "pipe")])
def test_the_delimiter_is_found(tmp_path, mark, name):
    found = report(write(tmp_path, f"a{mark}b\nx y{mark}1\nz{mark}2\n"))

    assert found["delimiter"] == name
    assert list(columns(found)) == ["a", "b"]


def test_commas_are_decimal_marks_where_semicolons_part_the_cells(tmp_path):
    found = report(write(tmp_path, "price;net\n3,5;1,25\n4,5;1,75\n"))

    assert found["delimiter"] == "semicolon"
    assert [column["mean"] for column in found["columns"]] == [4, 1.5]


def test_prose_with_commas_stays_one_column(tmp_path):
    found = report(write(tmp_path, "note\nhello, world\nplain\none, two, three\n"))

    assert found["delimiter"] == "none"
    assert columns(found)["note"]["distinct"] == 3


def test_a_line_that_tells_the_delimiter_is_not_a_header(tmp_path):
    assert list(columns(report(write(tmp_path, "sep=;\r\na;b\r\n1;2\r\n")))) == ["a", "b"]


def test_a_given_delimiter_is_not_questioned(tmp_path):
    found = report(write(tmp_path, "a,b;c\n1,2;3\n"), "--delimiter", "comma")

    assert list(columns(found)) == ["a", "b;c"]


def test_quoted_cells_may_hold_delimiters_quotes_and_line_breaks(tmp_path):
    found = report(write(tmp_path, 'id,note\n1,"two\nlines, here"\n2,"say ""hi"""\n3, "after a blank, too"\n'))

    assert (found["rows"], found["long_rows"]) == (3, 0)
    assert set(counts(columns(found)["note"])) == {"two\nlines, here", 'say "hi"', "after a blank, too"}


def test_a_quote_that_is_never_closed_is_noted_with_its_line(tmp_path):
    found = report(write(tmp_path, 'a,b\n1,2\n3,"open\n4,5\n6,7\n'))

    assert found["rows"] == 2
    assert "a quote in line 3 is never closed; all that follows is one cell" in found["notes"]


def test_a_closed_quote_before_the_end_is_not_noted(tmp_path):
    assert report(write(tmp_path, 'a,b\n1,2\n3,"closed\n"\n'))["notes"] == []


def test_a_byte_order_mark_is_not_part_of_the_first_name(tmp_path):
    found = report(write(tmp_path, "\ufeffamount,city\n1,Köln\n".encode()))

    assert found["encoding"] == "utf-8-sig"
    assert list(columns(found)) == ["amount", "city"]


def test_what_is_not_utf_8_is_read_as_latin_1_and_noted(tmp_path):
    found = report(write(tmp_path, "city,n\nKöln,1\nMálaga,2\n".encode("latin-1")))

    assert found["encoding"] == "latin-1"
    assert set(counts(columns(found)["city"])) == {"Köln", "Málaga"}
    assert "Latin-1" in found["notes"][0]


def test_a_latin_1_letter_far_down_changes_the_reading_of_the_whole_file(tmp_path):
    rows = b"plain,1\n" * 50_000
    found = report(write(tmp_path, b"city,n\n" + rows + "Köln,2\n".encode("latin-1")))

    assert (found["encoding"], found["rows"]) == ("latin-1", 50_001)


def test_utf_16_is_known_by_its_mark(tmp_path):
    found = report(write(tmp_path, "city\tn\r\nKöln\t1\r\n".encode("utf-16")))

    assert (found["encoding"], list(columns(found))) == ("utf-16", ["city", "n"])


def test_utf_16_that_is_cut_off_is_refused(tmp_path):
    assert_refused(run(write(tmp_path, "a,b\n1,2\n".encode("utf-16")[:-1])), "cannot be decoded as utf-16")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_read(tmp_path, end):
    found = report(write(tmp_path, end.join(["a,b", "1,2", "3,4", ""])))

    assert (found["rows"], columns(found)["b"]["max"]) == (2, 4)


def test_short_and_long_rows_are_counted_and_blank_lines_passed_over(tmp_path):
    found = report(write(tmp_path, "a,b,c\n1,2\n1,2,3,4\n\n1,2,3\n1\n"))

    assert (found["rows"], found["short_rows"], found["long_rows"]) == (4, 2, 1)
    assert [column["missing"] for column in found["columns"]] == [0, 1, 2]
    assert found["notes"] == [
        "2 of 4 rows are too short, the first in line 2; the rest counts as missing",
        "1 of 4 rows are too long, the first in line 3; extra cells are left out",
    ]


def test_a_title_above_the_header_is_suspected_and_can_be_skipped(tmp_path):
    file = write(tmp_path, "Sales report\n\na,b,c\n1,2,3\n4,5,6\n7,8,9\n")

    assert any("--skip" in note for note in report(file)["notes"])
    assert list(columns(report(file, "--skip", "2"))) == ["a", "b", "c"]


def test_a_first_line_of_values_is_suspected_and_can_be_a_row(tmp_path):
    file = write(tmp_path, "1,2024-01-01\n2,2024-01-02\n")

    assert any("--no-header" in note for note in report(file)["notes"])
    found = report(file, "--no-header")
    assert found["rows"] == 2
    assert list(columns(found)) == ["column_1", "column_2"]


def test_names_that_are_missing_or_repeated_become_different(tmp_path):
    found = report(write(tmp_path, "a,a,,b\n1,2,3,4\n"))

    assert list(columns(found)) == ["a", "a_2", "column_3", "b"]
    assert found["notes"] == ['column 2, "a" in the header, is "a_2" here']


def test_a_limit_stops_the_reading_and_says_so(tmp_path):
    file = write(tmp_path, "a,b\n1,2\n3,4\n5,6\n")

    limited, whole = report(file, "--limit", "2"), report(file, "--limit", "3")
    assert (limited["rows"], limited["limited"]) == (2, True)
    assert (whole["rows"], whole["limited"]) == (3, False)
    assert "rows: 2 (more follow)" in run(file, "--limit", "2").stdout


def test_a_hundred_thousand_rows_are_counted_exactly(tmp_path):
    dice = random.Random(1)
    regions = [dice.choice(["North", "South", "East"]) for _ in range(100_000)]
    rows = "".join(f"{number},{region},{number % 7}.5\n" for number, region in enumerate(regions))
    found = report(write(tmp_path, f"id,region,x\n{rows}"))

    by_name = columns(found)
    assert found["rows"] == 100_000
    assert (by_name["id"]["mean"], by_name["id"]["median"]) == (49999.5, 49999.5)
    assert (by_name["id"]["distinct"], by_name["id"]["distinct_exact"]) == (100_000, True)
    assert counts(by_name["region"]) == {name: regions.count(name) for name in set(regions)}
    assert by_name["x"]["mean"] == pytest.approx(sum(n % 7 + 0.5 for n in range(100_000)) / 100_000)


def test_what_is_too_much_to_keep_is_estimated_and_marked(tmp_path):
    names = ",".join(f"c{place}" for place in range(1000))
    rows = "".join(",".join([str(number)] * 1000) + "\n" for number in range(1100))

    first = run(write(tmp_path, f"{names}\n{rows}")).stdout.splitlines()[3].split()
    name, kind, missing, distinct, low, high, mean, median = first
    assert (name, kind, missing, low, high, mean) == ("c0", "integer", "0", "0", "1099", "549.5")
    assert distinct == "301+"
    assert median.startswith("~")
    assert float(median[1:]) == pytest.approx(549.5, rel=0.05)


def test_memory_stays_bounded_however_many_long_values_differ(tmp_path):
    rows = "".join(f"{number},{'long ' * 800}{number}\n" for number in range(20_000))
    within_64_mebibytes = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20)); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )

    outcome = subprocess.run(
        [sys.executable, "-c", within_64_mebibytes, SCRIPT, write(tmp_path, f"id,text\n{rows}")],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "rows: 20000" in outcome.stdout


def test_long_values_are_cut_in_the_report_but_stay_different(tmp_path):
    column = report(write(tmp_path, f"a,b\n{'x' * 5000}1,1\n{'x' * 5000}2,1\n"))["columns"][0]

    assert column["distinct"] == 2
    assert all(len(value) < 200 and "5001 characters" in value for value in counts(column))


def test_the_same_file_gives_the_same_report_every_time(tmp_path):
    file = write(tmp_path, "a,b\n" + "".join(f"{number},{number % 3}\n" for number in range(1000)))

    runs = {run(file, "--json", environment={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2", "3")}
    assert len(runs) == 1


def test_control_characters_never_reach_the_terminal(tmp_path):
    outcome = run(write(tmp_path, "na\x1b[31mme,b\n\x1b]0;title\x07,1\ntwo\u202eeman,2\n"))

    assert outcome.returncode == 0
    assert not set("\x1b\x07\u202e") & set(outcome.stdout)
    assert "\\x1b[31m" in outcome.stdout


def test_the_text_report_names_every_column_and_the_form_of_the_file(tmp_path):
    outcome = run(write(tmp_path, "city,n\nKöln,1\nBonn,2\n"), environment={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})

    lines = outcome.stdout.splitlines()
    assert lines[0] == 'file: "table.csv", rows: 2, columns: 2, encoding: utf-8, delimiter: comma'
    assert lines[2].split() == ["column", "type", "missing", "distinct", "min", "max", "mean", "median"]
    assert lines[4].split() == ["n", "integer", "0", "2", "1", "2", "1.5", "1.5"]
    assert '  city: "Bonn" 1, "Köln" 1' in lines


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    wide = ",".join(f"column{place}" for place in range(9000))
    command: list[str | Path] = [sys.executable, SCRIPT, write(tmp_path, wide + "\n")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()

        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


def test_a_missing_file_is_refused(tmp_path):
    assert_refused(run(tmp_path / "nowhere.csv"), "No such file")


def test_a_folder_is_refused(tmp_path):
    assert_refused(run(tmp_path), "this is a folder")


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert_refused(run(tmp_path / "pipe"), "not an ordinary file")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(256)) * 16, "binary"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "binary"),
        (b"\x1f\x8b\x08 packed", "binary"),
        (b"%PDF-1.7\n1 0 obj", "binary"),
        (b"PK\x03\x04 a spreadsheet", "save the sheet as CSV"),
    ],
)
def test_a_file_that_is_not_text_is_refused(tmp_path, content, reason):
    assert_refused(run(write(tmp_path, content)), reason)


def test_a_line_without_end_is_refused(tmp_path):
    assert_refused(run(write(tmp_path, "a,b\n" + "x" * 9_000_000)), "hardly a CSV file")


def test_a_quote_that_swallows_megabytes_is_refused_with_its_line(tmp_path):
    assert_refused(run(write(tmp_path, 'a,b\n1,"' + "x\n" * 5_000_000)), "line 2: field larger than field limit")


def test_too_many_columns_are_refused(tmp_path):
    assert_refused(run(write(tmp_path, ",".join(["a"] * 10_001) + "\n")), "is the delimiter right?")


def test_skipping_everything_leaves_nothing_to_report(tmp_path):
    assert_refused(run(write(tmp_path, "a,b\n1,2\n"), "--skip", "5"), "nothing to report on")


@pytest.mark.parametrize(
    "options",
    [
        ["--limit", "0"],
        ["--limit", "many"],
        ["--skip", "-1"],
        ["--skip", "9" * 30],
        ["--delimiter", "colon"],
        ["--nonsense"],
        ["second.csv"],
    ],
)
def test_a_wrong_command_line_is_refused_with_code_2(tmp_path, options):
    outcome = run(write(tmp_path, "a,b\n1,2\n"), *options)

    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "report.py: error:" in outcome.stderr


def test_no_arguments_are_refused_with_code_2():
    assert run().returncode == 2


def test_no_bytes_whatever_lead_to_a_traceback(tmp_path):
    dice = random.Random(5)
    parts = [
        b"a",
        b"1,5",
        b'"',
        b"\n",
        b"\r",
        b",",
        b";",
        b"\t",
        b"\xe9",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\0",
        b"2024-01-31",
        b"9999-12-31T23:00-10:00",
        b"sep=;\n",
    ]
    for _ in range(40):
        outcome = run(write(tmp_path, b"".join(dice.choices(parts, k=30))))

        assert outcome.returncode in (0, 1)
        assert "Traceback" not in outcome.stderr


def test_the_script_leaves_nothing_behind_in_the_skill(tmp_path):
    skill = SCRIPT.parents[1]
    before = sorted(skill.rglob("*"))
    run(write(tmp_path, "a,b\n1,2\n"))

    assert sorted(skill.rglob("*")) == before
