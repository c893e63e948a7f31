"""The disk cache: nothing is compiled twice, and nothing that is not sound is ever run."""

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from programs import affine, affine_program, program

from codegen.ir import Aval
from codegen.program import Kernel, Step
from codegen.runtime import disk, engine, objects
from codegen.runtime.disk import DiskCache, ObjectFile
from codegen.runtime.executable import Executable
from codegen.runtime.kernels import KernelTable
from codegen.runtime.native import call_numbers

KEY, OTHER = "0123456789abcdef" * 2, "f" * 32


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "objects")


def store(cache, *keys, content=b"code" * 100):
    cache.store(keys, content, ["k"])
    return ObjectFile(content, ("k",), keys)


def test_what_was_stored_is_loaded_also_by_another_process(cache):
    entry = store(cache, KEY, OTHER)
    again = DiskCache(cache.folder)
    assert cache.load(KEY) == again.load(KEY) == again.load(OTHER) == entry
    assert again.load("0" * 32) is None
    assert (again.hits, again.misses, again.faults) == (2, 1, 0)


def test_keys_of_one_object_share_a_file(cache):
    store(cache, KEY, OTHER)
    assert sorted(p.name for p in Path(cache.folder).iterdir()) == sorted([KEY, OTHER])
    assert len({p.stat().st_ino for p in Path(cache.folder).iterdir()}) == 1


def test_storing_again_replaces_and_leaves_nothing_behind(cache):
    store(cache, KEY, OTHER)
    entry = store(cache, OTHER, KEY, content=b"new")
    assert cache.load(KEY) == cache.load(OTHER) == entry
    assert len(list(Path(cache.folder).iterdir())) == 2


def test_where_files_cannot_have_two_names_there_are_copies(cache, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    entry = store(cache, KEY, OTHER)
    assert cache.load(KEY) == cache.load(OTHER) == entry and len(list(Path(cache.folder).iterdir())) == 2


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def shorten(path):
    path.write_bytes(path.read_bytes()[:20])


def empty(path):
    path.write_bytes(b"")


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0")


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[-50] ^= 4
    path.write_bytes(data)


def flip_a_bit_of_the_names(path):
    data = bytearray(path.read_bytes())
    data[disk._HEAD.size + 12] ^= 1
    path.write_bytes(data)


def flip_a_bit_of_the_digest(path):
    data = bytearray(path.read_bytes())
    data[disk._HEAD.size - 1] ^= 128
    path.write_bytes(data)


def another_version(path):
    path.write_bytes(path.read_bytes().replace(b"object 2", b"object 1", 1))


def foreign(path):
    path.write_bytes(b"\x7fELF" + bytes(1000))


def of_another_key(path):
    other = DiskCache(path.parent.parent / "other")
    store(other, OTHER)
    path.write_bytes((Path(other.folder) / OTHER).read_bytes())


def directory(path):
    path.unlink()
    path.mkdir()


def link(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def writable_by_others(path):
    path.chmod(0o666)


def writable_by_the_group(path):
    path.chmod(0o660)


FAULTS = [
    truncate, shorten, empty, lengthen, flip_a_bit, flip_a_bit_of_the_names, flip_a_bit_of_the_digest, another_version,
    foreign, of_another_key, directory, link, writable_by_others, writable_by_the_group,
]  # fmt: skip


@pytest.mark.parametrize("damage", FAULTS)
def test_a_file_that_is_not_sound_is_ignored_reported_and_replaced(cache, damage, caplog):
    store(cache, KEY)
    damage(Path(cache.folder) / KEY)
    with caplog.at_level(logging.WARNING, "autodiff.cache"):
        assert cache.load(KEY) is None and cache.load("0" * 32) is None
    assert [KEY in record.getMessage() for record in caplog.records] == [True]
    if damage is directory:
        (Path(cache.folder) / KEY).rmdir()
    entry = store(cache, KEY)
    assert cache.load(KEY) == entry and cache.faults == 1


def test_every_flipped_bit_is_found(cache, caplog):
    store(cache, KEY, content=b"x" * 40)
    path = Path(cache.folder) / KEY
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        assert cache.load(KEY) is None, place
    assert len(caplog.records) == 1 and cache.faults == len(data)


def test_an_unreadable_file_is_a_miss(cache, monkeypatch, caplog):
    store(cache, KEY)

    def refuse(*_args, **_kwargs):
        raise PermissionError("not for you")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert cache.load(KEY) is None
    assert "not for you" in caplog.text


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")
def test_a_folder_of_another_user_or_that_others_may_write_is_not_used(tmp_path, monkeypatch, caplog):
    open_to_all = DiskCache(tmp_path / "open")
    Path(open_to_all.folder).mkdir()
    Path(open_to_all.folder).chmod(0o777)
    store(open_to_all, KEY)
    assert open_to_all.load(KEY) is None and not list(Path(open_to_all.folder).iterdir())
    assert "others may write" in caplog.text
    theirs = DiskCache(tmp_path / "theirs")
    Path(theirs.folder).mkdir(mode=0o700)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    store(theirs, KEY)
    assert theirs.load(KEY) is None and not list(Path(theirs.folder).iterdir())
    assert "another user" in caplog.text and (open_to_all.faults, theirs.faults) == (1, 1)


def test_a_new_folder_is_for_its_owner_alone(cache):
    store(cache, KEY)
    assert Path(cache.folder).stat().st_mode & 0o077 == 0 and (Path(cache.folder) / KEY).stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_made_is_done_without(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "objects")
    store(cache, KEY)
    assert cache.load(KEY) is None and len(caplog.records) == 1


def test_folders_on_the_way_are_for_their_owner_alone_and_those_that_are_there_stay_as_they_are(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    cache = DiskCache(there / "home" / ".cache" / "autodiff" / "objects")
    umask = os.umask(0o002)
    try:
        store(cache, KEY)
    finally:
        os.umask(umask)
    assert cache.load(KEY) is not None
    modes = [p.stat().st_mode & 0o777 for p in (Path(cache.folder), *list(Path(cache.folder).parents)[:4])]
    assert modes == [0o700, 0o700, 0o700, 0o700, 0o755]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_in_the_place_of_a_file_is_not_waited_for(cache, caplog):
    store(cache, OTHER)
    os.mkfifo(Path(cache.folder) / KEY, 0o600)
    assert cache.load(KEY) is None  # without the flag it waits for a writer, for ever
    assert "no regular file" in caplog.text
    entry = store(cache, KEY)
    assert cache.load(KEY) == entry


def test_a_full_disk_is_done_without_for_a_while(cache, monkeypatch, caplog):
    other = store(cache, OTHER)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        store(cache, KEY)
    assert "No space left" in caplog.text and [p.name for p in Path(cache.folder).iterdir()] == [OTHER]
    store(cache, KEY)
    assert len(caplog.records) == 1 and [p.name for p in Path(cache.folder).iterdir()] == [OTHER]
    assert cache.load(OTHER) == other  # what is there is read all the same
    now = disk.time.monotonic()
    monkeypatch.setattr(disk.time, "monotonic", lambda: now + 61.0)
    entry = store(cache, KEY)
    assert cache.load(KEY) == entry and len(caplog.records) == 1


def test_what_was_not_used_for_longest_goes_first_and_other_files_stay(cache):
    keys = [f"{number:032x}" for number in range(20)]
    for age, key in enumerate(reversed(keys)):
        store(cache, key, "e" + key[1:], content=bytes(10_000))
        os.utime(Path(cache.folder) / key, (1e9 - age, 1e9 - age))
    (Path(cache.folder) / "notes.txt").write_text("mine" * 100_000)
    cache.prune()
    assert len(list(Path(cache.folder).iterdir())) == 41
    assert cache.load(keys[0]) is not None  # which is the use that keeps it
    cache.limit_bytes = 100_000
    cache.prune()
    left = {p.name for p in Path(cache.folder).iterdir()}
    assert "notes.txt" in left and keys[0] in left and keys[1] not in left and keys[19] in left
    assert 2 * 6 <= len(left) - 1 <= 2 * 8


def test_the_folder_stays_below_its_limit_by_itself(tmp_path):
    cache = DiskCache(tmp_path / "objects", limit_bytes=50_000)
    for number in range(200):
        store(cache, f"{number:032x}", content=bytes(3_000))
    total = sum(p.stat().st_size for p in Path(cache.folder).iterdir())
    assert 3_000 <= total <= 100_000


def test_left_over_temporary_files_go(cache):
    store(cache, KEY)
    old, new = (Path(cache.folder) / f".1-{number}-{'0' * 16}" for number in (1, 2))
    old.write_bytes(b"unfinished")
    new.write_bytes(b"being written")
    os.utime(old, (1e9, 1e9))
    cache.prune()
    assert not old.exists() and new.exists() and cache.load(KEY)


def test_threads_may_store_and_load_at_once(tmp_path):
    caches = [DiskCache(tmp_path / "objects") for _ in range(2)]
    wrong = []

    def work(number):
        cache = caches[number % 2]
        for i in range(50):
            store(cache, f"{i % 5:032x}", f"{i % 7 + 10:032x}", content=bytes([i % 5]) * 1000)
            entry = cache.load(f"{(i + number) % 5:032x}")
            if entry is not None and entry.object_bytes != bytes([(i + number) % 5]) * 1000:
                wrong.append(entry)
            if i % 20 == 0:
                cache.prune()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and [cache.faults for cache in caches] == [0, 0]
    assert not [p.name for p in Path(caches[0].folder).iterdir() if p.name.startswith(".")]


# -- kernels ---------------------------------------------------------------------------------------


def table_on(cache):
    return KernelTable(64, lambda: cache)


def many(*slopes):
    a = Aval((8,), "f8")
    steps = [Step(Kernel(affine(8, slope, name=f"k{i}")), (i, i + 1)) for i, slope in enumerate(slopes)]
    return program([a], [a] * len(slopes), [], steps)


def test_kernels_on_disk_need_no_llvm(cache, monkeypatch):
    expected = Executable(many(2.0, 3.0, 4.0), table_on(cache)).call(np.arange(8.0))
    monkeypatch.setattr(engine, "object_of", None)
    table = table_on(cache)
    got = Executable(many(2.0, 3.0, 4.0), table).call(np.arange(8.0))
    np.testing.assert_array_equal(got, expected)
    assert (table.compiled_modules, table.disk_objects, len(table)) == (0, 1, 3)


def test_only_what_is_not_on_disk_is_compiled_whatever_it_was_compiled_with(cache, monkeypatch):
    Executable(many(2.0, 3.0), table_on(cache))
    Executable(many(4.0), table_on(cache))
    table = table_on(cache)
    got = Executable(many(5.0, 3.0, 4.0), table).call(np.ones(8))
    assert [y[0] for y in got] == [6.0, 19.0, 77.0]
    assert (table.compiled_modules, table.disk_objects) == (1, 2)
    monkeypatch.setattr(engine, "object_of", None)
    assert Executable(many(5.0, 2.0), table_on(cache)).call(np.ones(8))[1][0] == 13.0


def test_functions_made_together_are_found_one_by_one_and_only_others_are_made(cache, monkeypatch):
    asked = []

    def write(names):
        asked.append(list(names))
        return "".join([f"define i32 @{name}() {{\n  ret i32 {ord(name)}\n}}\n" for name in names])

    def values(names):
        monkeypatch.setattr(objects, "_codes", {})  # as in another process
        codes = objects.codes_of({name: f"{name} of a test" for name in names}, write)
        return {name: call_numbers(code, name) & 0xFFFFFFFF for name, code in codes.items()}

    monkeypatch.setattr(objects, "default", lambda: cache)
    monkeypatch.setattr(objects, "package_identity", lambda name: "this version")
    assert values("ab") == {"a": 97, "b": 98} and asked == [["a", "b"]]
    assert values("b") == {"b": 98} and values("ba") == {"b": 98, "a": 97} and len(asked) == 1
    assert values("bc") == {"b": 98, "c": 99} and asked[1:] == [["c"]]
    assert values("cab") == {"c": 99, "a": 97, "b": 98} and len(asked) == 2
    monkeypatch.setattr(objects, "package_identity", lambda name: "another version")
    assert values("ca") == {"c": 99, "a": 97} and asked[2:] == [["c", "a"]]
    monkeypatch.setattr(objects, "default", lambda: None)
    assert values("a") == {"a": 97} and asked[3:] == [["a"]]


def test_facts_about_code_are_told_once_by_each_version(cache, monkeypatch):
    told = []

    def tell():
        told.append(1)
        return {"words": ("first", "second"), "places": {("copy", 8): 16}}

    monkeypatch.setattr(objects, "default", lambda: cache)
    for version in ("this version", "another version"):
        monkeypatch.setattr(objects, "package_identity", lambda name, version=version: version)
        assert [objects.facts("a test", tell) for _ in range(3)] == [tell()] * 3
    monkeypatch.setattr(objects, "default", lambda: None)
    assert objects.facts("a test", tell) == tell()
    assert len(told) == 2 * (1 + 1) + 2


def test_code_is_known_to_be_on_disk_without_loading_it(cache, monkeypatch):
    monkeypatch.setattr(objects, "default", lambda: cache)
    monkeypatch.setattr(objects, "package_identity", lambda name: "this version")
    assert not objects.is_kept("one")
    objects.native_code("one", lambda module: "define i64 @one() {\n  ret i64 1\n}\n")
    assert objects.is_kept("one") and not objects.is_kept("two")
    monkeypatch.setattr(objects, "package_identity", lambda name: None)
    assert not objects.is_kept("one")


def test_a_sound_object_that_cannot_be_linked_is_made_again(cache, caplog):
    table = table_on(cache)
    Executable(affine_program(8), table)
    (path,) = Path(cache.folder).iterdir()
    cache.store([path.name], b"this is no object file", [f"k{path.name}"])
    table = table_on(cache)
    assert Executable(affine_program(8), table).call(np.ones(8))[0][0] == 3.0
    assert table.compiled_modules == 1 and cache.load(path.name).object_bytes != b"this is no object file"


# -- processes -------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numpy as np
import autodiff as ad
from codegen import compiler
from codegen.runtime import engine
if sys.argv[1] == "warm":
    engine.object_of = None
x = np.linspace(0.1, 1.0, 50)
value, gradient = ad.value_and_grad(lambda x, w: (ad.exp(-x * x) @ w).sum())(x, np.ones((50, 60)))
counts = compiler.counts()
print(counts.compiles, counts.modules, counts.disk_objects, np.abs(gradient + 120 * x * np.exp(-x * x)).max() < 1e-12)
"""


@pytest.fixture
def run(tmp_path):
    """run(mode) -> (what the program printed, what it complained of), with a cache of its own."""

    def run_it(mode, **environment):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, timeout=120,
            env=os.environ
            | {"AUTODIFF_CACHE": "1", "AUTODIFF_CACHE_DIR": str(tmp_path / "cache"),
               "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            | environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split(), done.stderr

    return run_it


@pytest.mark.smoke
def test_a_warm_start_compiles_nothing_and_damage_is_repaired(run, tmp_path):
    (compiles, modules, found, right), said = run("cold")
    assert (compiles, found, right, said) == ("1", "0", "True", "") and int(modules) == 1
    assert run("warm") == (["1", "0", "1", "True"], "")
    files = list((tmp_path / "cache" / "objects").iterdir())
    assert len(files) >= 3  # the launcher, products, kernels
    for path in files:
        flip_a_bit(path)
    found, said = run("cold")
    assert found == ["1", "1", "0", "True"] and said.count("cannot be used") == 1
    assert run("warm") == (["1", "0", "1", "True"], "")


def test_the_cache_can_be_turned_off(run, tmp_path):
    for _ in range(2):
        assert run("cold", AUTODIFF_CACHE="0") == (["1", "1", "0", "True"], "")
    assert not (tmp_path / "cache").exists()


def test_processes_that_start_together_share_one_cache(run):
    found = []
    threads = [threading.Thread(target=lambda: found.append(run("cold"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(result[-1], said) for result, said in found] == [("True", "")] * 3
    assert run("warm") == (["1", "0", "1", "True"], "")


def test_the_folder_follows_the_user_s_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("AUTODIFF_CACHE_DIR", str(tmp_path))
    assert Path(disk.folder_of_user()) == tmp_path
    monkeypatch.delenv("AUTODIFF_CACHE_DIR")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Path(disk.folder_of_user()) == tmp_path / "xdg" / "autodiff"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(disk.folder_of_user()) == tmp_path / ".cache" / "autodiff"
