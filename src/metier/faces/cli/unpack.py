"""metier unpack."""

from __future__ import annotations

import click

from ...host import archive, paths, scratch
from ...types.errors import BadRequest
from .printing import clean_path, counted, say, say_json
from .progress import Bar


@click.command("unpack")
@click.argument("file", metavar="ARCHIVE", type=click.Path())
@click.argument("dest", type=click.Path())
@click.option("--strip", metavar="N", type=click.IntRange(0, 100), default=0, help="Leave out the first N folders.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def unpack(file: str, dest: str, strip: int, as_json: bool) -> None:
    """Take an archive apart into a new folder: zip, .skill, tar, tar.gz, tar.bz2, tar.xz.

    Files and folders only.  An archive that holds a link, leads out of the folder or is a bomb is refused whole.
    """
    cwd, home = paths.cwd(), paths.home()
    source, target = paths.absolute(file, cwd, home), paths.absolute(dest, cwd, home)
    if not paths.exists(source):
        raise BadRequest(f"{file} does not exist", "give an archive", file)
    if paths.is_folder(source):
        raise BadRequest(f"{file} is a folder", "give an archive", file)
    with Bar(file) as bar, scratch.becoming(target) as folder:
        count = archive.unpack(source, folder, strip, progress=bar)
    if as_json:
        say_json({"path": target, "files": count})
        return
    say(f"Unpacked {counted(count, 'file')} to {clean_path(target)}")
