#!/bin/sh
# Run metier on a copy of the example workspace, without prompts and without a key.  The first run tries to download
# a small model (130 MB, kept in .models); if that fails, it shows the request that would be sent.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
trap 'exit 130' INT TERM
mkdir "$made/home"
cp -R "$here/examples/workspace" "$made/workspace"
mkdir "$made/workspace/.git" # make it a project, wherever temporary folders are

# A separate home: your own skills and settings are neither read nor changed.
export HOME="$made/home" METIER_HOME="$made/home/.metier" PATH="$here/.venv/bin:$PATH"
unset METIER_PATH OPENCLAW_BUNDLED_SKILLS_DIR WEATHER_API_KEY
# Write bytecode, so that the second command starts as fast as an installed metier.
unset PYTHONDONTWRITEBYTECODE
ready=yes why=''
get_model() {
    if [ "${MODEL:-}" = no ]; then
        printf 'disabled by MODEL=no\n\n' >"$made/said"
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
    # Print standard error after standard output, also if both go into one pipe.
    status=0
    metier "$@" 2>"$made/stderr" || status=$?
    cat "$made/stderr"
    [ "$status" -eq 0 ] || exit "$status"
}

printf 'A project with skills for four different agents, in four dialects of SKILL.md.\n'
show 'List the skills. Nothing in a project is used before you trust it; one file is broken, with the reason.' list
show 'Trust the project after reading its skills. Prose may change later; what runs may not.' trust
show 'Four are offered to the model, one is for people only, and one has missing requirements.' list
show 'What is missing?' status weather-report
show 'How was another one resolved?' why test-watch
show 'This is what a model sees: put it into a system prompt.' catalog
show 'These are the slash commands.' commands
printf 'region,month,amount\nnorth,1,120\nsouth,1,95\nnorth,2,\nsouth,2,101\n' >sales.csv
show 'Copy the bundled skills; edit them as you like.' init
if [ "$ready" = yes ]; then
    show 'Add a local model with 135 million parameters: no key, no network.' \
        models add "$here/.models/models/smollm2-135m.gguf"
    show 'It chooses among the skills that fit, runs a script in the sandbox, and answers.' \
        run 'Make a report of sales.csv'
    show 'The run is recorded.' runs
else
    printf '\n%sno local model: %s%s\n' "$dim" "$why" "$plain"
    show 'Show the exact request of a run without sending it.' \
        run --dry-run '/csv-report sales.csv'
fi
printf '\n%sThe temporary copy is deleted. To look at your own skills, runs and schedules in a browser: metier web\nNext: docs/start.md%s\n' "$dim" "$plain"
