"""Names that are no names of files, and what is around the folders that they are used in."""

import hashlib
import random
from pathlib import Path

NASTY = (
    "", ".", "..", "...", "../..", "../commits", "/", "//", "/etc/passwd", "a/b", "a//b", "a/../b",
    "./a", "~", "-rf", "_SUCCESS", "_made.json", "_delta_log", ".hidden", "a.", "a ", " a", "a\0b",
    "\0", "a\nb", "a\r", "\x1b[2J", "a%2Fb", "%2E.", "%2E%2E", "%-", "a%", "%", "id", "ID", "Id",
    "id ", "id%20", "lock.json", "requests", "answers", "quarantine", "commits", "snapshots",
    "delivered", "spark", "stream=a", "batch=0", "origin=0", "a=b", "a:b", "C:\\x", "a\\b", "*", "?",
    "[a]", "{a,b}", "$HOME", "`a`", '"', "'", "é", "e\u0301", "日本", "💧", "\ud83d\udca7", "\ud83d",
    "\udca7", "\u202e", "\ufeff", "\uffff", "a" * 160, "a" * 161, "a" * 300, "/" * 300, "é" * 300,
    "CON", "nul.txt",
)  # fmt: skip
"""Names that lead elsewhere, are hidden, reserved, too long, or no text."""
_ALPHABETS = (
    "abcABC", "../", "./~-_", "%2E2Ff-", " \t\n\r\0\x01\x1b\x7f", "éÉßſıİ\u0301", "日本語💧\U0010ffff",
    "\ud800\udfff", "".join(map(chr, range(0x20, 0x7F))),
)  # fmt: skip


def odd_names(count: int, *, seed: int = 12) -> list[str]:
    """Return names, none of them twice: the nasty ones, and others of up to 300 characters."""
    chance, names = random.Random(seed), dict.fromkeys(NASTY)
    while len(names) < count:
        letters = "".join(chance.sample(_ALPHABETS, chance.randint(1, 3)))
        length = chance.choice((1, 2, 3, 5, 8, 13, 40, 160, 300))
        names["".join(chance.choices(letters, k=length))] = None
    return list(names)[:count]


def listing(root: Path, *, but: tuple[Path, ...] = ()) -> dict[str, tuple[int, int, str]]:
    """Return all that is below a folder, with sizes, times and contents, but for what some folders hold."""
    found = {}
    for path in sorted(root.rglob("*")):
        if any(one in path.parents for one in but):
            continue
        stat = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        # Folders that are not looked into may change.
        found[str(path)] = (0, 0, content) if path in but else (stat.st_size, stat.st_mtime_ns, content)
    return found


def surroundings(root: Path) -> tuple[Path, Path]:
    """Return folders for a checkpoint and for results, with much around them that has names of Weft's own."""
    inside = root / "above" / "here"
    for name in ("commits", "spark", "%2E.", "_made.json", "weft-000000000-000000000.parquet"):
        for folder in (root, root / "above", inside):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{name} of another")
    (inside / "snapshots").mkdir()
    checkpoint, out = inside / "state", inside / "out"
    for folder in (checkpoint, out):
        folder.mkdir()
    return checkpoint, out
