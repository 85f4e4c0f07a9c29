"""Parameters filled into a command or a URL."""

import os
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from helpers.tuning import AMPLE, PYTHON
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.errors import ConfigurationError
from ebbtide.tuning import check, fill, fill_url, run_command

NASTY = [
    "; rm -rf /",
    "$(touch pwned)",
    "`id`",
    "'\"\\",
    "a\nb\r\n",
    "--help",
    "-",
    "",
    " ",
    "{power}",
    "{{}}",
    "%s%n",
    "*",
    "~",
    "$HOME",
    "&& false",
    "| cat",
    "> f",
    "ü→\U0001f30a",
    "\x1b[2J",
]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6) | st.text("{}ab.!:[]0", min_size=1, max_size=6)
arguments = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(NASTY)
values = arguments | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.booleans() | st.none()


def expected_text(value):
    return (
        value
        if isinstance(value, str)
        else {"True": "true", "False": "false", "None": "null"}.get(repr(value), repr(value))
    )


def doubled(text):
    return text.replace("{", "{{").replace("}", "}}")


@given(names, values, st.lists(st.text("{}ab", max_size=4), min_size=1, max_size=5))
def test_literals_and_values_come_out_as_they_went_in(name, value, literals):
    placeholder = "{" + doubled(name) + "}"
    template = placeholder.join(map(doubled, literals))
    assert fill([template], {name: value}) == [expected_text(value).join(literals)]


@given(st.dictionaries(names, values, min_size=1, max_size=5))
def test_every_parameter_is_one_argument_whatever_it_is_called(params):
    argv = ["{" + doubled(name) + "}" for name in params]
    check(list(params), argv, None)
    assert fill(argv, params) == [expected_text(value) for value in params.values()]


@settings(max_examples=8)
@given(st.lists(values, max_size=40))
@example(NASTY)
def test_a_child_process_receives_each_value_byte_for_byte(tmp_path_factory, given_values):
    params = {f"p{i}": value for i, value in enumerate(given_values)}
    arrived = tmp_path_factory.mktemp("child") / "arrived"
    child = "import os, sys; open(sys.argv[1], 'wb').write(b'\\0'.join(map(os.fsencode, sys.argv[2:]))); print(1)"
    argv = [*PYTHON, child, doubled(str(arrived)), *(f"{{{name}}}" for name in params)]
    outcome = run_command(fill(argv, params), AMPLE)
    assert (outcome.value, outcome.problem) == (1.0, None)
    received = arrived.read_bytes().split(b"\0") if params else []
    assert received == [os.fsencode(expected_text(value)) for value in given_values]


def test_a_shell_script_receives_them_too(tmp_path):
    script = tmp_path / "measure.sh"
    script.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > arrived\necho $#\n')
    script.chmod(0o755)
    params = {str(i): value for i, value in enumerate(NASTY)}
    argv = ["sh", "-c", 'cd "$0" && shift 0 && exec ./measure.sh "$@"', str(tmp_path), *(f"{{{n}}}" for n in params)]
    assert run_command(fill(argv, params), AMPLE).value == len(NASTY)
    assert (tmp_path / "arrived").read_bytes().decode().split("\0")[:-1] == NASTY
    assert sorted(file.name for file in tmp_path.iterdir()) == ["arrived", "measure.sh"]


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), values, min_size=1, max_size=4))
def test_a_value_in_a_url_is_only_a_value(params):
    url = "http://host/metric?" + "&".join(f"{name}={{{name}}}" for name in params)
    filled = fill_url(url, params)
    assert filled.isascii()
    assert urlsplit(filled)[:3] == ("http", "host", "/metric")
    assert parse_qs(urlsplit(filled).query, keep_blank_values=True, strict_parsing=True) == {
        name: [expected_text(value)] for name, value in params.items()
    }


def test_not_even_a_slash_is_left_in_a_url():
    assert fill_url("http://host/{x}", {"x": "../a b?c#d%"}) == "http://host/..%2Fa%20b%3Fc%23d%25"


def test_where_one_name_begins_another_the_other_is_meant():
    params = {"a": 1, "a}": 2, "{a": 3}
    assert fill(["{a}", "{a}}}", "{{{a}"], params) == ["1", "2", "3"]


def test_nothing_of_an_object_can_be_reached():
    with pytest.raises(ConfigurationError, match="is not a parameter"):
        fill(["{x.__class__}"], {"x": 1.0})
    with pytest.raises(ConfigurationError, match="is not a parameter"):
        fill(["{x!r:>10}"], {"x": 1.0})


@pytest.mark.parametrize(
    ("argv", "url", "complaint"),
    [
        ([], None, "nothing to run"),
        (["run", "{power}", "{width}", "{size}"], None, "{size} in '{size}' is not a parameter: the space has {power}"),
        (["run", "{power}", "{}"], None, "{} in '{}' is not a parameter"),
        (["run", "{power}"], None, "['width'] appear nowhere"),
        (["run", "{{power}}", "{width}"], None, "['power'] appear nowhere"),
        (["run", "{power}", "{width}", "a}b"], None, "a lone '}': write }}"),
        (["run", "{power}", "{width}", "{"], None, "a lone '{': write {{"),
        ([], "http://host/{power}", "['width'] appear nowhere"),
        ([], "http://host/{power}/{width}/{what}", "{what}"),
        ([], "ftp://host/{power}/{width}", "give http://"),
        ([], "file:///{power}/{width}", "give http://"),
        ([], "{power}{width}://host", "give http://"),
        ([], "host/{power}/{width}", "give http://"),
        ([], "http:///{power}/{width}", "give http://"),
        ([], "http://[{power}/{width}", "give http://"),
        ([], "", "give http://"),
        ([], "http://host/{power} {width}", "%20"),
        ([], "http://host/{power}/größe/{width}", "percent-encode"),
    ],
)
def test_what_would_make_every_evaluation_useless_is_refused_at_once(argv, url, complaint):
    with pytest.raises(ConfigurationError, match=re.escape(complaint)):
        check(["power", "width"], argv, url)


def test_parameters_may_be_split_between_command_and_url():
    check(["power", "width"], ["set", "--power={power}"], "HTTPS://host:{width}/metric")
    check(["power"], ["jq", '{{"power": {power}}}'], None)
    assert fill(['{{"power": {power}}}'], {"power": 1e-7}) == ['{"power": 1e-07}']
