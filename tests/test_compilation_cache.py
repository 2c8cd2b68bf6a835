"""Compiled programs on disk: an entry is there as a whole or not at all, so that no process reads a part of one."""

from pathlib import Path

import pytest
from jax._src.lru_cache import LRUCache

from mean_actor_critic.engines import devices


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of JAX's, as training sets it up."""
    monkeypatch.setattr(LRUCache, "put", LRUCache.put)  # to have it back afterwards
    devices._write_whole_entries()
    return LRUCache(str(tmp_path), max_size=-1)


def test_what_was_put_is_found_and_nothing_else_lies_there(cache, tmp_path):
    cache.put("program", b"compiled")
    assert cache.get("program") == b"compiled"
    assert cache.get("another") is None
    assert len(list(tmp_path.iterdir())) == 1


def test_an_entry_that_could_not_be_written_is_not_there(cache, tmp_path, monkeypatch):
    def fill_the_disk(file, content):
        with file.open("wb") as part:
            part.write(content[:3])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", fill_the_disk)
    with pytest.raises(OSError, match="no space"):
        cache.put("program", b"compiled")
    assert cache.get("program") is None
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_an_entry_that_a_kill_left_is_replaced(cache, tmp_path):
    cache.put("program", b"compiled")
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"com")
    cache.put("program", b"compiled")
    assert cache.get("program") == b"compiled"
