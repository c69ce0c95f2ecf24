"""What is secret in a URL stands in no message."""

import pytest

import perfmagic
from perfmagic.base.errors import PerfmagicError, shown_url, without_secrets

SHOWN = {
    "https://user:SECRET@127.0.0.1:9/x.json": "https://…@127.0.0.1:9/x.json",
    "s3://KEY:SECRET@bucket/x.json": "s3://…@bucket/x.json",
    "s3://KEY:SEC/RET@bucket/x.json": "s3://…",
    "s3://KEY:SEC@RET@bucket/x.json": "s3://…@bucket/x.json",
    "s3://KEY:SEC@RE/T@bucket/x.json": "s3://…",
    "s3://KEY:12/SECRET@bucket/x.json": "s3://…",
    "HTTPS://user:SECRET@h/x?sig=SECRET#SECRET": "HTTPS://…@h/x",
    "https://user:SEC%40RET@h/x": "https://…@h/x",
    "https://SECRET@h/x": "https://…@h/x",
    "https://h:8080/x.json?mail=a@b&sig=SECRET": "https://…",  # of 8080/x.json?mail=a could be a password
    "https://h/x#SECRET": "https://h/x",
    "ftp://user:12?SECRET@h": "ftp://…",
    "ftp://user:SEC?RET@h/x?m=a@b&s=SECRET": "ftp://…",
    "sftp://user:SEC#RET@h/x": "sftp://…",
    "https://user:SECRET@h?mail=a@SECRET": "https://…",
    "https:/user:SECRET@h/x": "https:/…@h/x",  # as a Path writes it
    "simplecache::s3://KEY:SECRET@b/x.json": "simplecache::s3://…@b/x.json",
    "zip://x.json::https://u:SECRET@h/r.zip?sig=SECRET": "zip://x.json::https://…@h/r.zip",
    "zip://*.json::filecache::s3://K:SECRET@b/r.zip": "zip://*.json::filecache::s3://…@b/r.zip",
    "http://u:SECRET@[::1]:80/x": "http://…@[::1]:80/x",
    "https://[::1]:9/x.json?sig=SECRET": "https://[::1]:9/x.json",
    "https://[fe80::1%25eth0]/x.json?sig=SECRET": "https://[fe80::1%25eth0]/x.json",
    "https://h/x.json?a=1&sig=ab::SECRET": "https://h/x.json",
    "https://user:q::SECRET@h/x.json": "https://…@h/x.json",
    "ftp://user:SECRET::q@h/x.json": "ftp://…@h/x.json",
    "ftp://user:12::SECRET/x@h": "ftp://…",
    "https://user:q::s3://SECRET@h/x.json": "https://…",
    "zip://x.json::https://user:q::SECRET@h/r.zip": "zip://x.json::https://…@h/r.zip",
    "x_y://user:SECRET@h/x.json": "x_y://…@h/x.json",
    "x://user:SECRET@h/x.json": "x://…@h/x.json",
    "https://h/x.json;token=SECRET": "https://h/x.json",
    "https://user:12;SECRET@h/x.json": "https://…",
    "s3://KEY:12/SE?SECRET@b/x.json": "s3://…",
    r"https:\\user:SECRET@h\x.json": r"https:\\…@h\x.json",
    r"https:\user:SE\SECRET@h\x.json": r"https:\…",
}
BLANKS = {
    "https://user:a b SECRET@h/x.json": "https://…",
    "https://user a SECRET@h/x.json": "https://…",
    "https:/user:a SECRET@h/x.json": "https:/…",
}
OPEN = (
    *("s3://bucket/model@v1/x.json", "https://h/a@b/x.json", "http://[::1]:80/x.json", "memory://runs/w[0-3]_*.json"),
    *("file:///C:/x/y.json", "C:/Users/ann@home/y.json", "zip://::/tmp/runs.zip", "tcp://10.0.0.1:29500"),
)


@pytest.mark.parametrize(("url", "shown"), SHOWN.items())
def test_secrets_of_a_url_are_hidden_alone_and_in_a_sentence(url: str, shown: str) -> None:
    assert shown_url(url) == shown
    assert without_secrets(f"see ({url}), or '{url}': no.") == f"see ({shown}), or '{shown}': no."
    error = PerfmagicError(f"there is no {url}", hint=f"try {url}.")
    assert str(error) == f"there is no {shown}\nHint: try {shown}."
    assert error.args == (f"there is no {shown}",)


@pytest.mark.parametrize(("url", "shown"), BLANKS.items())
def test_a_password_with_blanks_is_hidden_in_a_sentence(url: str, shown: str) -> None:
    assert without_secrets(f"no {url}, or {url}.") == f"no {shown}, or {shown}."
    assert "SECRET" not in shown_url(url)


@pytest.mark.parametrize("opens", ["load", "open_snapshot", "open_trace", "open_traces"])
@pytest.mark.parametrize(
    "url", ["https://user:a b SECRET@h/x.json", "x_y://h/x.json?sig=a SECRET", "x_y://[::1]:9/x.json;a SECRET"]
)
def test_no_way_to_open_a_file_shows_the_secrets_of_a_url(opens: str, url: str) -> None:
    with pytest.raises(PerfmagicError) as refused:
        getattr(perfmagic, opens)(url)
    assert "SECRET" not in str(refused.value)


def test_a_port_that_is_a_part_of_a_password_is_hidden_in_a_library_s_words() -> None:
    words = "Port could not be cast to integer value as 'secret'"
    for url in ("ftp://user:SECRET::q@h/x.json", "ftp://user:SECRET"):
        assert without_secrets(words, url) == "Port could not be cast to integer value as '…'"


@pytest.mark.parametrize("url", OPEN)
def test_what_holds_no_secret_is_shown(url: str) -> None:
    assert shown_url(url) == url
    assert without_secrets(f"see {url}: no.") == f"see {url}: no."


@pytest.mark.parametrize(
    "words",
    ["no user 'ann'… p@ss w", "no p%40ss%20w", "s3://ann:p@ss w@b/x?t=to%26ken", "token to&ken", "key AKIA1", "open"],
)
def test_what_was_opened_is_hidden_however_a_library_quotes_it(words: str) -> None:
    found = without_secrets(
        words, "s3://ann1:p%40ss%20w@b/x?t=to%26ken", {"client_kwargs": {"key": "AKIA1"}, "anon": True}
    )
    assert not any(secret in found for secret in ("p@ss", "p%40ss", "to%26ken", "to&ken", "AKIA1"))
    assert found == words if words == "open" else "…" in found
