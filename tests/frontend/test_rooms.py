"""The rooms of the front end's source: model, paint, interact, host, lab, each importing only those before it."""

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "perfmagic" / "frontend" / "src"
ROOMS = ("model", "paint", "interact", "host", "lab")
IMPORTED = re.compile(r'^(?:import|export)\b[^;]*?\bfrom\s+"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
BROWSER = re.compile(
    r"\b(?:document\.|(?:addEventListener|getComputedStyle|matchMedia|requestAnimationFrame|setTimeout)\()"
)


def imports() -> dict[str, list[str]]:
    """For each file, "room/name.ts", the files it imports, types too."""
    found = {}
    for path in sorted(SOURCE.rglob("*.ts")):
        targets = IMPORTED.findall(COMMENT.sub("", path.read_text()))
        resolved = [(path.parent / target).resolve().relative_to(SOURCE).as_posix() for target in targets]
        found[path.relative_to(SOURCE).as_posix()] = resolved
    return found


def edges_against_the_order(graph: dict[str, list[str]]) -> list[str]:
    rank = {room: number for number, room in enumerate(ROOMS)}
    return [
        f"{file} -> {target}"
        for file, targets in graph.items()
        for target in targets
        if "/" in file and rank[target.split("/")[0]] > rank[file.split("/")[0]]
    ]


def cycle(graph: dict[str, list[str]]) -> list[str]:
    """The files of one import cycle, the first one again at its end; [] where there is none."""
    done: set[str] = set()

    def below(file: str, path: list[str]) -> list[str]:
        if file in path:
            return [*path[path.index(file) :], file]
        if file not in done:
            for target in graph[file]:
                if found := below(target, [*path, file]):
                    return found
            done.add(file)
        return []

    return next((found for file in graph if (found := below(file, []))), [])


def test_every_file_is_in_a_room_and_imports_files_that_exist() -> None:
    graph = imports()
    entries = {"frame.ts", "loader.ts", "main.ts", "more.ts", "tables.ts"}
    assert {file.split("/")[0] for file in graph} == {*ROOMS, *entries}
    assert [f"{file} -> {t}" for file, targets in graph.items() for t in targets if t not in graph] == []
    assert sum(map(len, graph.values())) > 100  # so the pattern finds them


def test_rooms_import_only_the_rooms_before_them() -> None:
    assert edges_against_the_order(imports()) == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    assert cycle(imports()) == []


def test_an_edge_against_the_order_and_a_cycle_would_be_found() -> None:
    graph = {"paint/a.ts": ["interact/b.ts"], "interact/b.ts": ["paint/c.ts"], "paint/c.ts": ["paint/a.ts"]}
    assert edges_against_the_order(graph) == ["paint/a.ts -> interact/b.ts"]
    assert cycle(graph) == ["paint/a.ts", "interact/b.ts", "paint/c.ts", "paint/a.ts"]


def test_the_model_and_the_painters_run_without_a_browser() -> None:
    users = [
        path.relative_to(SOURCE).as_posix()
        for room in ROOMS[:2]
        for path in sorted((SOURCE / room).glob("*.ts"))
        if BROWSER.search(COMMENT.sub("", path.read_text()))
    ]
    assert users == ["paint/canvas.ts"]
