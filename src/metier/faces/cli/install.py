"""metier install."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

import click

from ...install import recipes
from ...install.operations import install_means, perform_plan
from ...install.recipes import InstallOption, InstallPlan
from ...types.errors import BadRequest, HostError, Refused
from ...types.skill import Skill
from ...types.verdict import state_of
from .approval import can_ask, require_approval
from .options import CliContext, skill_names
from .output import ProgressBar, clean_path, format_columns, hint_line, paint, printable, say, say_json


@click.command("install")
@click.argument("name", shell_complete=skill_names)
@click.argument("id", required=False)
@click.option("--yes", is_flag=True, help="Install without asking; downloads then need a sha256")
@click.option("--timeout", metavar="SECONDS", type=float, default=300.0, help="Time limit (1 to 900)")
@click.option("--allow-insecure", is_flag=True, help="Also allow downloads from local and private networks")
@click.option("--dry-run", is_flag=True, help="Show the plan without running it")
@click.option("--json", "as_json", is_flag=True, help="Print JSON")
@click.pass_obj
def install(
    context: CliContext,
    name: str,
    id: str | None,
    yes: bool,
    timeout: float,
    allow_insecure: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Install the programs a skill requires, with one of its recipes.

    The exact command is shown before it runs. If there are several recipes and no ID is given, they are listed.
    """
    library = context.library()
    verdict = library.find(name)
    skill = verdict.skill
    if not skill.install:
        raise BadRequest(
            f"Skill '{skill.name}' has no install specifications", "its author declares no install recipes"
        )
    environment = install_means(library, skill)
    options = recipes.list_options(skill.install, environment, skill.settings_key)
    if dry_run:
        _show_dry_run(skill, options, environment, _pick_option(skill, options, id, strict=False), as_json)
        return
    chosen = _pick_option(skill, options, id)
    if chosen is None or chosen.plan is None:
        _list_options(skill, options, environment, as_json)
        raise BadRequest("several recipes are available", f"choose one: metier install {skill.name} ID")
    plan = chosen.plan
    if not as_json:
        _show_plan(plan)
    # Refused only now: the plan above shows what trusting the skill would allow.
    if state_of(verdict) in ("untrusted", "unapproved"):
        raise Refused(
            f"`{skill.name}` is {state_of(verdict)}; not installing anything for it", "trust or approve it first"
        )
    # Without a digest nothing vouches for the file: only a person who sees the URL can decide.
    if plan.kind == "download" and not plan.sha256 and (yes or as_json or not can_ask()):
        raise Refused(
            f"`{plan.id}` has no sha256, so the download can't be verified", "run this in a terminal to approve it"
        )
    require_approval("Continue?", yes, as_json)
    least, _, most = recipes.INSTALL_SECONDS
    with ProgressBar(skill.name) as bar:
        bar("installing", 0, 0)
        outcome = perform_plan(library, plan, skill, min(max(timeout, least), most), bar, allow_insecure)
    if not outcome.ok:
        raise HostError(outcome.message, (outcome.output.strip().splitlines() or ["see its output"])[-1])
    # Opened again: the program may be there now, which makes the skill eligible.
    after = context.library().find(name)
    if as_json:
        say_json({"installed": plan.id, "message": outcome.message, "eligible": after.eligible})
        return
    say(clean_path(outcome.message))
    say(f"{printable(skill.name)} is {paint(state_of(after), 'green' if after.eligible else 'yellow')} now")


def _pick_option(
    skill: Skill, options: Sequence[InstallOption], id: str | None, strict: bool = True
) -> InstallOption | None:
    """The option that was named, or the only one there is; None when one has to be chosen."""
    if id is not None:
        for option in options:
            if option.recipe.id == id:
                if option.plan is None and strict:
                    raise Refused(f"`{id}` of {skill.name} is refused: {option.refusal}", "choose another recipe")
                return option
        near = get_close_matches(id, [option.recipe.id for option in options], 1)
        hint = (
            f"did you mean `{near[0]}`?" if near else "available: " + ", ".join(choice.recipe.id for choice in options)
        )
        raise BadRequest(f"Install spec '{id}' not found for skill '{skill.name}'", hint)
    usable = [option for option in options if option.plan is not None]
    if not usable and strict:
        why = "; ".join(f"{option.recipe.id}: {option.refusal}" for option in options)
        raise Refused(
            f"No compatible install spec found for skill '{skill.name}': {why}", "install the requirements manually"
        )
    return usable[0] if len(usable) == 1 else None


def _show_dry_run(
    skill: Skill,
    options: Sequence[InstallOption],
    environment: recipes.InstallEnvironment,
    chosen: InstallOption | None,
    as_json: bool,
) -> None:
    """What would be done: the plan, or every option where none is chosen or can be carried out here."""
    if as_json:
        say_json(_options_dict(skill, options, environment, chosen))
    elif chosen is not None and chosen.plan is not None:
        _show_plan(chosen.plan)
    else:
        _list_options(skill, [chosen] if chosen is not None else options, environment, as_json)


def _list_options(
    skill: Skill, options: Sequence[InstallOption], environment: recipes.InstallEnvironment, as_json: bool
) -> None:
    """The options, one of which has to be chosen."""
    if as_json:
        say_json(_options_dict(skill, options, environment, None))
        return
    best = recipes.preferred_option(options, environment)
    rows = []
    for option in options:
        action = " ".join(option.plan.argv) or option.plan.url if option.plan else option.refusal
        mark = "recommended" if option is best else "" if option.plan else "unavailable"
        label = f" ({option.recipe.label})" if option.recipe.label else ""
        rows.append((printable(option.recipe.id), mark, printable(action + label)))
    for line in format_columns(rows, last_cut=False):
        say(line)


def _show_plan(plan: InstallPlan) -> None:
    say(f"{paint(printable(plan.label), 'bold')} ({printable(plan.id)})")
    if plan.argv:
        say("  " + printable(" ".join(_quote_word(word) for word in plan.argv)))
        for key, value in plan.env.items():
            say(f"  {key}={clean_path(value)}")
    else:
        say(f"  {printable(plan.url)}")
        say(f"  to {clean_path(plan.target)}" + (f", sha256 {plan.sha256}" if plan.sha256 else ""))
    if plan.note:
        say("  " + hint_line(printable(plan.note)))


def _quote_word(word: str) -> str:
    # shlex.quote would also quote `^`, `~`, `[` and `<`, which are common in version ranges and extras.
    return (
        word
        if word and all(character.isalnum() or character in "-_./:@=+,%~^[]<>!" for character in word)
        else f"'{word}'"
    )


def _options_dict(
    skill: Skill,
    options: Sequence[InstallOption],
    environment: recipes.InstallEnvironment,
    chosen: InstallOption | None,
) -> dict[str, object]:
    best = recipes.preferred_option(options, environment)
    return {
        "skill": skill.name,
        "choice": chosen.recipe.id if chosen is not None else None,
        "preferred": best.recipe.id if best is not None else None,
        "options": [_option_dict(option) for option in options],
    }


def _option_dict(option: InstallOption) -> dict[str, object]:
    plan = option.plan
    return {
        "id": option.recipe.id,
        "kind": option.recipe.kind,
        "label": plan.label if plan else option.recipe.label,
        "refusal": option.refusal or None,
        "argv": list(plan.argv) if plan else [],
        "env": dict(plan.env) if plan else {},
        "url": plan.url if plan else "",
        "sha256": plan.sha256 if plan else "",
        "target": plan.target if plan else "",
        "archive": plan.archive if plan else "",
        "strip": plan.strip if plan else 0,
        "note": plan.note if plan else "",
    }
