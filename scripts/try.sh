#!/bin/sh
# Shows metier on a copy of the example workspace.  It asks nothing and needs no key.  The first time it tries to get
# a small model (some 130 MB, kept in .models); where it can't, it says so and shows the request that would be sent.
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
ready=yes why=''
get_model() {
    if [ "${MODEL:-}" = no ]; then
        printf 'MODEL=no was said\n\n' >"$made/said"
        return 1
    fi
    "$here/.venv/bin/python" -c 'import xllamacpp' 2>/dev/null ||
        sh "$here/scripts/venv.sh" add requirements/local.txt >"$made/said" 2>&1 || return 1
    METIER_HOME="$here/.models" metier models get smollm2-135m >"$made/said" 2>&1
}
get_model || { ready=no why=$(grep -v WARNING "$made/said" | tail -n 2 | head -n 1); }
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
printf 'region,month,amount\nnorth,1,120\nsouth,1,95\nnorth,2,\nsouth,2,101\n' >sales.csv
show 'Some skills come along; they are yours to edit.' init
if [ "$ready" = yes ]; then
    show 'Now a real run: a model of 135 million parameters, in this process, with no key and no network.' \
        models add "$here/.models/models/smollm2-135m.gguf"
    show 'It is offered the few skills that fit, chooses one, has its script run in the sandbox, and answers.' \
        run 'Make a report of sales.csv'
    show 'What was done is kept.' runs
else
    printf '\n%sA small model that runs here could not be had: %s%s\n' "$dim" "$why" "$plain"
    show 'So this is where a run would begin: the exact request, and nothing is sent.' \
        run --dry-run '/csv-report sales.csv'
fi
printf '\n%sThat was a copy in a temporary folder, and it is gone. Next: docs/start.md%s\n' "$dim" "$plain"
