"""`python -m wakebridge.simboard.tell SOCKET WORDS...`: do something to a desk board that runs.

`help` lists the words; `watch` prints every change of the wake line until Ctrl-C.
"""

import contextlib
import socket
import sys
from pathlib import Path

import click


@click.command(name="tell")
@click.argument("control", type=click.Path(path_type=Path), metavar="SOCKET")
@click.argument("words", nargs=-1, required=True)
def main(control: Path, words: tuple[str, ...]) -> None:
    """Tell the desk board behind its control SOCKET what happens to it; `help` lists the WORDS."""
    with socket.socket(socket.AF_UNIX) as board:
        try:
            board.connect(str(control))
        except OSError as error:
            raise click.ClickException(f"no desk board listens at {control}: {error}") from error
        board.sendall(" ".join(words).encode() + b"\n")
        with contextlib.suppress(KeyboardInterrupt), board.makefile(encoding="utf-8") as answers:
            for answer in answers:
                click.echo(answer.rstrip("\n"))
                if answer.startswith("error"):
                    sys.exit(1)
                if words != ("watch",):
                    return


if __name__ == "__main__":
    main()
