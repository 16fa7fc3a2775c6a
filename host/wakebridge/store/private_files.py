"""Files that only the bridge's user can read: 0600 in a 0700 directory, replaced as a whole.

Everything goes through the descriptor of the directory and never follows a symbolic link below
the configured one, so that nobody who may write there can point the bridge at another file.
Modes are set on the descriptor, whatever the umask. Raises `OSError`; the stores say what it means.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
_TEMPORARY: Final = ".tmp"


def make_directory(path: Path) -> None:
    """Make a directory, and what is missing above it, each with mode 0700 whatever the umask.

    One that is there already stays as it is: it may be shared for a reason.
    """
    if path.is_dir():
        return
    make_directory(path.parent)
    with suppress(FileExistsError):
        path.mkdir(DIRECTORY_MODE)
        path.chmod(DIRECTORY_MODE)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is not a directory", str(path))


def sentence(path: Path, error: OSError) -> str:
    """Return why a path cannot be used, for a person."""
    if error.errno == errno.ELOOP:
        return f"{path} is a symbolic link, which is refused"
    where = error.filename if isinstance(error.filename, str) else path
    return f"{where} cannot be used: {error.strerror or error}"


@contextmanager
def directory(base: Path, *names: str, create: bool = False) -> Iterator[int]:
    """Open `base/names...` and give its descriptor.

    `base` is the configured directory and may be a link; the `names` below it may not. With
    `create`, what is missing is made durable and mode 0700, and a looser mode of the last one is
    tightened.
    """
    if create:
        make_directory(base)
    descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            below = _open_below(descriptor, name, create)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


def _open_below(parent: int, name: str, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
            os.chmod(name, DIRECTORY_MODE, dir_fd=parent)  # the umask may have taken it all away
            os.fsync(parent)
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=parent)
    except NotADirectoryError:
        raise _not_plain(parent, name, "a directory") from None
    if create and stat.S_IMODE(os.fstat(descriptor).st_mode) != DIRECTORY_MODE:
        os.fchmod(descriptor, DIRECTORY_MODE)
    return descriptor


def read(folder: int, name: str, limit_bytes: int) -> bytes | None:
    """Return the content of a regular file, or None when there is no such name."""
    try:
        # O_NONBLOCK: a FIFO in its place must be refused, not waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_plain(folder, name, "a regular file") from None
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", name)
        if status.st_size > limit_bytes:
            raise OSError(errno.EFBIG, f"has more than {limit_bytes} bytes", name)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def replace(folder: int, name: str, data: bytes, *, previous: str | None = None) -> None:
    """Replace a file as a whole, durably: a crash at any moment leaves the old or the new one.

    With `previous`, the content that is replaced stays under that name. Raises `OSError` with the
    old file in place.
    """
    temporary = name + _TEMPORARY
    try:
        _write_new(folder, temporary, data)
        kept = previous is not None and keep(folder, name, previous)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    try:
        os.fsync(folder)
    except OSError:
        # The caller is told that nothing changed, so put the old file back as well as it goes.
        with suppress(OSError):
            if kept and previous is not None:
                keep(folder, previous, name)
            elif previous is not None:
                os.unlink(name, dir_fd=folder)  # there was none
        raise


def keep(folder: int, name: str, other: str) -> bool:
    """Let `other` be a second name of the content of `name`; False when there is no such file."""
    temporary = other + _TEMPORARY
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise _not_plain(folder, name, "a regular file")
        os.link(name, temporary, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # A file system without hard links, such as FAT on a memory card.
        _write_new(folder, temporary, read(folder, name, sys.maxsize) or b"")
    os.rename(temporary, other, src_dir_fd=folder, dst_dir_fd=folder)
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)  # rename leaves it if both names were one file already
    return True


def append(folder: int, name: str, line: bytes) -> None:
    """Append one line, durably and whole: after an error the file is as long as before.

    A line that a crash cut off before is ended first, so that it spoils nobody but itself.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(name, flags, FILE_MODE, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", name)
        if stat.S_IMODE(status.st_mode) != FILE_MODE:
            os.fchmod(descriptor, FILE_MODE)
        size = status.st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        try:
            _write_all(descriptor, line)
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
        if size == 0:
            os.fsync(folder)
    finally:
        os.close(descriptor)


def _write_new(folder: int, name: str, data: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)  # what a crash left behind
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, FILE_MODE, dir_fd=folder)
    try:
        os.fchmod(descriptor, FILE_MODE)
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _not_plain(folder: int, name: str, wanted: str) -> OSError:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    what = "is a symbolic link" if stat.S_ISLNK(mode) else f"is not {wanted}"
    return OSError(errno.ELOOP, f"{what}, which is refused", name)
