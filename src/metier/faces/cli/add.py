"""metier add."""

from __future__ import annotations

import click

from ...host import paths
from ...install import adding, cleaning
from ...install.adding import Offer
from ...install.place import Change
from ...runtime.preparing import nearby, scanner, trust_placed
from ...types.errors import Refused
from .app import Context
from .approval import refuse_dangers, settle, show_target, target_dict, waiting
from .grounds import Field, field, outfit, where, wish
from .printing import arrow, clean, clean_path, counted, say, say_json, warn
from .progress import Bar


@click.command("add")
@click.argument("source")
@click.option("--skill", "skills", metavar="NAME", multiple=True, help="Only this skill of it; may be repeated.")
@click.option("--name", default="", help="What to call the folder.")
@click.option("--force", is_flag=True, help="Replace what is there; it goes to the trash.")
@click.option("--yes", is_flag=True, help="Approve without being asked; never overrides a refusal.")
@click.option("--unapproved", is_flag=True, help="Place it without using it; `metier approve` comes later.")
@click.option("--allow-insecure", is_flag=True, help="Also http, git and file addresses.")
@click.option("--dry-run", is_flag=True, help="Fetch and look, and place nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@where
@click.pass_obj
def add(
    context: Context,
    source: str,
    skills: tuple[str, ...],
    name: str,
    force: bool,
    yes: bool,
    unapproved: bool,
    allow_insecure: bool,
    dry_run: bool,
    as_json: bool,
    user: bool,
    in_project: bool,
    profile: str,
) -> None:
    """Get skills: owner/repo[/path][@ref], a git or archive URL, a site, an archive or a folder.

    Everything is fetched to one side, looked at and shown; it is placed whole when you approve.  Nothing of it runs.
    """
    at = field(context, user, in_project, profile)
    known = nearby(at.place)
    _say_nearer(source, at, allow_insecure)
    with Bar(source) as bar:
        asked = wish(source, at, scanner(at.place), skills=tuple(skills), name=name, force=force, nearby=known)
        with adding.offered(asked, outfit(at.place, bar, allow_insecure)) as offer:
            bar.clear()
            if not as_json:
                for target in offer.targets:
                    show_target(target, at.ground.root)
            try:
                done = () if dry_run else _placed(offer, yes, unapproved, as_json)
            except Refused:
                if as_json:
                    say_json(_document(offer, (), at.ground.root))
                raise
            if as_json:
                say_json(_document(offer, done, at.ground.root))
    if done:
        cleaning.empty_trash(at.ground)
    if done and not unapproved:
        trust_placed(at.place, at.ground, [place for change in done for place in change.skills])
    if not as_json:
        _report(offer, done, dry_run, unapproved)
        _say_names(offer, [called for called, _ in known])


def _placed(offer: Offer, yes: bool, unapproved: bool, quiet: bool) -> tuple[Change, ...]:
    what = ", ".join(target.folder for target in offer.targets)
    if not unapproved:
        refuse_dangers(offer.dangers, what)
        settle(f"Add {what}?", yes, quiet)
    return adding.accept(offer, not unapproved, waiting)


def _say_names(offer: Offer, known: list[str]) -> None:
    """`--name` is the folder's: a skill is called what its file says."""
    for target in offer.targets if offer.wish.name else ():
        for skill in target.skills:
            if not skill.place and skill.name != target.folder:
                warn(f"note: the folder is `{target.folder}`, the skill is still called `{clean(skill.name)}`")
                if skill.name in known:
                    warn(f"note: another skill here has that name, and one is used: `metier why {target.folder}`")
    twice = [one.name for target in offer.targets for one in target.skills if one.place and one.name in known]
    if twice and not offer.wish.force:
        names = ", ".join(f"`{clean(name)}`" for name in twice[:10])
        warn(f"note: other skills here are called {names} too, and one of each is used: `metier why {clean(twice[0])}`")


def _say_nearer(source: str, at: Field, insecure: bool) -> None:
    """What reads as a repository of GitHub may be a folder that is right here."""
    asked = adding.referred(source, outfit(at.place, insecure=insecure))
    here = paths.absolute(source, at.place.cwd, at.place.home) if paths.can_be_path(source) else ""
    if asked.kind == "github" and "://" not in source and here and paths.exists(here):
        warn(f"note: this is {clean(asked.url)}; for the folder that is here write ./{clean_path(source)}")


def _document(offer: Offer, done: tuple[Change, ...], root: str) -> dict[str, object]:
    return {
        "root": root,
        "placed": [change.target for change in done],
        "approved": bool(done) and all(one.approval for change in done for one in change.skills.values()),
        "targets": [target_dict(target, root) for target in offer.targets],
    }


def _report(offer: Offer, done: tuple[Change, ...], dry_run: bool, unapproved: bool) -> None:
    root = offer.wish.ground.root
    if dry_run:
        say("Nothing was placed: this was a dry run.")
        return
    for change in done:
        count = len(change.skills)
        place = clean_path(f"{root}/{change.target}")
        if count == 1:
            say(f"Added skill '{change.target}' to {place}")
        else:
            say(f"Added {counted(count, 'skill')} from {clean_path(offer.wish.spec)} to {place}")
    if unapproved:
        say(arrow(f"they are not used before you approve them: metier approve {offer.targets[0].folder}"))
