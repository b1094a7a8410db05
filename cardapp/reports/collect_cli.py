"""The command ``collect``: reads the files of answers that students handed in, and writes the tables of the class."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from cardapp.errors import InvalidValue, UsageError
from cardapp.reports import answers_file, class_page, class_table, csv_text
from cardapp.reports.class_table import Student

PAGE, TABLE = "class.html", "class.csv"
_MANY_FILES = 16


def run(files: Sequence[Path], directory: Path, at: str) -> bool:
    """Write ``class.html`` and ``class.csv`` to the directory, and say so. Returns whether every file was intact.

    :raises UsageError: a file cannot be read, or the directory cannot be written.
    """
    read = _read_all(files)
    students = [each for each in read if isinstance(each, Student)]
    faults = [each for each in read if isinstance(each, str)]
    classes = class_table.by_card(_newest(students))
    _write(directory / PAGE, class_page.render(classes, faults, at))
    _write(directory / TABLE, csv_text.lines(class_table.csv_rows(classes)))
    for fault in faults:
        print(f"cardapp: left out {fault}", file=sys.stderr)
    count = sum(len(each.students) for each in classes)
    print(f"{count} {'student' if count == 1 else 'students'}: {directory / PAGE} and {directory / TABLE}")
    return not faults


def _read_all(files: Sequence[Path]) -> list[Student | str]:
    """The student of each file, or the reason why the file is left out. Many files are read in parallel on all
    processors."""
    if len(files) < _MANY_FILES:
        return [_read(file) for file in files]
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_read, files, chunksize=_MANY_FILES // 2))


def _read(file: Path) -> Student | str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}; name files saved as “Answers as JSON”") from error
    try:
        return class_table.student(str(file), answers_file.read(content))
    except InvalidValue as error:
        return f"{file}: {error.detail}"


def _newest(students: Iterable[Student]) -> list[Student]:
    """The students, without the earlier files of a record of which a later file was handed in, too."""
    found: dict[tuple[str, str], Student] = {}
    for each in students:
        record = each.answers.card["id"], each.answers.origin or each.file
        other = found.get(record)
        if other is None:
            found[record] = each
            continue
        if each.answers.events == other.answers.events:
            said = f"{each.file} is of the same record as {other.file} and has no more events"
        else:
            older, newer = sorted((other, each), key=lambda one: one.answers.events)
            said = f"{older.file} is an earlier file of the same record as {newer.file}"
            found[record] = newer
        print(f"cardapp: {said}", file=sys.stderr)
    return list(found.values())


def _write(path: Path, pieces: Iterable[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another folder with -o DIR") from error
