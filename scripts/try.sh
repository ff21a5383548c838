#!/bin/sh
# Shows metier on a copy of the example workspace.  It asks nothing, needs no key and no network, and leaves nothing.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
trap 'exit 130' INT TERM
mkdir "$made/home"
cp -R "$here/examples/workspace" "$made/workspace"
mkdir "$made/workspace/.git" # a project of its own, wherever temporary folders are

# A home of its own: neither your skills nor your settings are seen, and none are touched.
export HOME="$made/home" METIER_HOME="$made/home/.metier" PATH="$here/.venv/bin:$PATH"
unset METIER_PATH OPENCLAW_BUNDLED_SKILLS_DIR WEATHER_API_KEY
# With bytecode, so that the second command starts as fast as an installed metier does.
unset PYTHONDONTWRITEBYTECODE
cd "$made/workspace"
exec </dev/null

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
    bold='' dim='' plain=''
fi

show() {
    caption=$1
    shift
    printf '\n%s%s%s\n' "$dim" "$caption" "$plain"
    printf '%s$ metier %s%s\n' "$bold" "$*" "$plain"
    # What metier says beside its output comes after it, also where both go into one pipe.
    status=0
    metier "$@" 2>"$made/beside" || status=$?
    cat "$made/beside"
    [ "$status" -eq 0 ] || exit "$status"
}

printf 'A project with skills for four different agents, in four dialects of SKILL.md.\n'
show 'What is here? Nothing in a project counts before you trust it; one file is broken, and says why.' list
show 'You have read them, so you trust them. Prose may change later; what runs may not.' trust
show 'Four are offered to the model, one is for people only, and one lacks what it needs.' list
show 'What does that one need?' status weather-report
show 'And how did another one get where it is?' why test-watch
show 'This is what a model is told: put it into a system prompt.' catalog
show 'This is what a person may type.' commands
printf '\n%sThat was a copy in a temporary folder, and it is gone. Next: docs/start.md%s\n' "$dim" "$plain"
