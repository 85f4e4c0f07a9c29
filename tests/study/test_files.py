"""One atomic write for snapshots, reports, runs, tables and figures."""

import os
import subprocess
import sys
import threading

import pytest

from ebbtide.files import write_atomically


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("content", ["ebb → flow\n", b"\x00\xff\r\n", ""])
def test_what_is_written_is_what_was_given(tmp_path, content, durable):
    path = tmp_path / "file"
    for _ in range(2):  # a new file, then one that is there
        write_atomically(path, content, durable=durable)
        assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_durable_content_is_on_the_disk_before_it_is_in_place(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append((os.fstat(fd).st_size, path.read_text())))
    write_atomically(path, "newer", durable=True)
    assert seen == [(5, "old")]
    assert path.read_text() == "newer"
    write_atomically(path, "newest")
    assert len(seen) == 1


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new", durable=True)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_process_that_dies_in_the_middle_leaves_the_old_file(tmp_path):
    """Killed between the write and the rename."""
    path = tmp_path / "file"
    path.write_text("old")
    script = (
        "import os, signal, sys; from ebbtide.files import write_atomically\n"
        "os.fsync = lambda fd: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], 'new', durable=True)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60)
    assert done.returncode == -9
    assert path.read_text() == "old"
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664])
def test_an_existing_file_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    write_atomically(path, "new")
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    write_atomically(tmp_path / "ours", "")
    (tmp_path / "any").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_writers_at_the_same_time_do_not_mix(tmp_path):
    path = tmp_path / "file"
    contents = [letter * 200_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=lambda text=text: [write_atomically(path, text) for _ in range(20)])
        for text in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in contents
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
