"""What the address of timelines answers: to whom, for which paths, with what."""

import shutil
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from perfmagic.api.opening import open_trace
from perfmagic.base import units
from tests.trace.formats.nsight_made import h100

from .conftest import Server, Start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STEP = "step.pt.trace.json.gz"
ADDRESS = f"/perfmagic/timeline/{STEP}"


def test_it_is_the_timeline_that_a_notebook_shows(server: Server, root: Path) -> None:
    answer = server.timeline(STEP)
    wire = open_trace(root / STEP).live().wire()
    header = wire.header_json.encode()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.body == len(header).to_bytes(4, "little") + header + wire.payload


def test_names_in_any_language_and_with_url_characters_open(server: Server) -> None:
    assert server.timeline(quote("训练 #1 100%.json.gz")).header == server.timeline(STEP).header


def test_a_folder_of_ranks_is_one_timeline_without_hidden_files(server: Server) -> None:
    assert [rank["rank"] for rank in server.timeline("run").header["ranks"]] == [0, 1, 2, 3]


def test_an_export_of_two_processes_is_one_timeline_of_ranks_and_a_report_says_how_to_export_it(
    server: Server, root: Path
) -> None:
    shutil.copy(h100(), root / "two.sqlite")
    (root / "two.nsys-rep").write_bytes(b"\x00")
    assert [rank["rank"] for rank in server.timeline("two.sqlite").header["ranks"]] == [0, 1]
    assert "nsys export --type sqlite --output two.sqlite two.nsys-rep" in str(server.timeline("two.nsys-rep").said)


@pytest.mark.parametrize("token", ["", "another"])
def test_a_request_without_login_is_rejected(server: Server, token: str) -> None:
    assert server.ask(ADDRESS, token=token).status == 403


def test_a_cross_site_request_with_the_cookie_is_rejected(server: Server) -> None:
    assert server.ask(ADDRESS, Sec_Fetch_Site="cross-site").status == 403
    assert server.ask(ADDRESS, token="", Cookie=server.cookie(), Origin="http://elsewhere.example").status == 404
    assert server.ask(ADDRESS, token="", Cookie=server.cookie(), Sec_Fetch_Site="cross-site").status == 403
    same = {"Cookie": server.cookie(), "Sec_Fetch_Site": "same-origin", "Referer": f"http://127.0.0.1:{server.port}/"}
    assert server.ask(ADDRESS, token="", **same).status in (200, 202)


def test_a_user_who_may_not_read_contents_is_rejected(start: Start, root: Path) -> None:
    nobody = (
        "from jupyter_server.auth.authorizer import Authorizer\n"
        "class Nobody(Authorizer):\n"
        "    def is_authorized(self, handler, user, action, resource):\n"
        "        return (action, resource) != ('read', 'contents')\n"
        "c.ServerApp.authorizer_class = Nobody"
    )
    with start(root, nobody) as server:
        assert server.ask(ADDRESS).status == 403
        assert server.ask("/api/contents/?content=0").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "../outside.json.gz", "..%2Foutside.json.gz", "%2e%2e/outside.json.gz", "run/../../outside.json.gz",
        ".hidden/step.json.gz", "absent.json.gz", "/etc/passwd", "//etc/passwd", "%00", "step%00.json.gz",
        "file:///etc/passwd", "http://127.0.0.1/x.json", "s3://bucket/x.json",
    ],
)  # fmt: skip
def test_what_the_contents_api_does_not_show_is_not_opened(server: Server, path: str) -> None:
    assert server.ask(f"/perfmagic/timeline/{path}").status == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("empty.npz", "empty"), ("other.json", "traceEvents"), ("cut.json.gz", "cut.json.gz"),
        ("nothing", "folder without"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_gives_a_reason_without_server_paths(server: Server, path: str, words: str) -> None:
    answer = server.timeline(path)
    assert answer.status == 422
    assert words in answer.said["message"]
    assert str(server.root) not in str(answer.said)
    assert server.timeline(path).status == 422  # again, too


def test_a_file_that_changed_is_read_again(server: Server, root: Path) -> None:
    path = root / "changing.json.gz"
    path.write_bytes(b"nothing yet")
    assert server.timeline(path.name).status == 422
    shutil.copy(root / STEP, path)
    assert server.timeline(path.name).status == 200
    path.unlink()
    assert server.ask(f"/perfmagic/timeline/{path.name}").status == 404


def test_results_are_private_and_deleted_with_the_server(start: Start, root: Path) -> None:
    with start(root) as server:
        assert server.timeline(STEP).status == 200
        (folder,) = server.temporary.glob("perfmagic-timelines-*")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(list(folder.iterdir())) == 1
    assert list(server.temporary.glob("perfmagic-timelines-*")) == []


def test_a_server_s_configuration_sets_the_limits(start: Start, root: Path) -> None:
    with start(root, f"c.Perfmagic.memory_bytes = {64 << 20}") as server:
        answer = server.timeline(STEP)
    assert answer.status == 422
    assert units.size(64 << 20) in answer.said["message"] + answer.said["hint"]
