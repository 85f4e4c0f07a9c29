"""The picture of the architecture is that of the code."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = DOCS.parent / "src" / "ebbtide"
sys.path.insert(0, str(DOCS))
import architecture  # noqa: E402

ROOMS = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
ROOMS -= {"__init__", "__main__"}


def test_every_room_is_in_a_layer_and_has_a_place():
    assert {room for layer in architecture.layers() for room in layer} == ROOMS
    assert set(architecture.imports()) == ROOMS
    assert set(architecture.COLUMNS) == ROOMS


def test_no_two_rooms_share_a_place():
    for layer in architecture.layers():
        columns = [architecture.COLUMNS[room] for room in layer]
        assert len(set(columns)) == len(columns)


def test_every_room_is_on_the_page():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [row.split(" | ")[0].strip("| ").replace("`", "").split(", ") for row in rows] == architecture.layers()


def test_newcomers_are_led_to_the_page():
    assert "(architecture.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert "(docs/architecture.md)" in (DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_imports_point_down():
    height = {room: i for i, layer in enumerate(reversed(architecture.layers())) for room in layer}
    assert [(a, b) for a, others in architecture.imports().items() for b in others if height[a] <= height[b]] == []


def test_the_arrows_tell_of_every_import_above_the_bottom():
    """Whatever imports another can be followed along arrows, and every arrow is an import."""
    arrows, known = architecture.arrows(), architecture.imports()
    assert [(a, b) for a, b in arrows if b not in known[a]] == []

    def followed(room):
        return {room}.union(*(followed(b) for a, b in arrows if a == room))

    bottom = set(architecture.layers()[-1])
    assert [room for room in ROOMS if not known[room] - bottom <= followed(room)] == []
    for arrow in arrows:  # and none of them follows from the others
        others = [other for other in arrows if other != arrow]
        reached = {arrow[0]}
        while more := {b for a, b in others if a in reached} - reached:
            reached |= more
        assert arrow[1] not in reached


@pytest.mark.parametrize("way", [architecture.ASK, architecture.TELL])
def test_a_way_goes_along_imports(way):
    """From a room to one that it imports; between client and service there is HTTP."""
    assert way[0].room == way[-1].room == "client"
    assert way[1].room == "service"
    before = {"service"}
    for step in way[2:-1]:
        assert step.caller in before
        assert step.room in architecture.imports()[step.caller]
        before.add(step.room)


def test_the_copy_in_the_tree_is_of_this_code():
    """`python docs/draw.py architecture` draws it anew."""
    with Image.open(DOCS / "drawn" / "architecture.png") as picture:
        shown = json.loads(picture.info["Description"])
    assert shown == json.loads(architecture.description())
