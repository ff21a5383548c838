"""The files that other programs of the user's obey: one table, with the reason for each.

Whoever can write one of these in a project decides what runs there next, outside every sandbox: at the next `git
status`, the next `cd`, the next time the folder is opened in an editor.  The table says two things of each.  One that
is there stays read-only while a program runs (`kept`).  One that a program made is moved away after it ran, unless it
is `ordinary`: such files are what people ask agents to write, so they are moved away only after programs that nobody
approved one by one, which are scripts of skills and everything unattended.

A project's own code is not in the table: sources, tests, and what a build names.  It runs when a person runs the
project, and changing it is what an agent is for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

ObeyedScope: TypeAlias = Literal["anywhere", "project", "top"]
"""`anywhere`: obeyed in whatever folder a person stands; `project`: not in packages that were installed; `top`: only
at the top of a project or repository."""


class ObeyedFile(NamedTuple):
    """A file or folder that a program obeys."""

    pattern: str
    """A name, or the end of a path; `*` stands for the rest of a name."""
    tool: str
    reason: str
    scope: ObeyedScope = "project"
    kept: bool = True
    ordinary: bool = False


def _rows(
    names: str, tool: str, reason: str, scope: ObeyedScope = "project", kept: bool = True, ordinary: bool = False
) -> Iterator[ObeyedFile]:
    """One row for each name of a text, for the same tool and reason."""
    return (ObeyedFile(name, tool, reason, scope, kept, ordinary) for name in names.split())


_GIT = "its settings and hooks name programs that any git command runs"
_SHELL = "a shell executes it when it starts in a home"
_EDITOR = "tasks and settings in it name programs that the editor starts"
_RULES = "an editor executes it when it opens a file beside it"
_AGENT = "commands, hooks and servers in it run with the rights of another agent"
_CI = "its steps run with the rights and secrets of the repository"
_HOOKS = "its commands run at every commit"
_PACKAGES = "it names where packages come from, and programs that an install runs"
_TOOLS = "its tasks and plugins run when a folder is entered"
_PROMPT = "its commands run when the program starts here"
_BUILD = "it names programs that every build runs"
_TASKS = "its commands run when a person runs the tool"

OBEYED: tuple[ObeyedFile, ...] = (
    # Version control
    *_rows(".git", "git", _GIT, "anywhere"),
    *_rows(".gitmodules", "git", "it names repositories that git fetches into the project"),
    *_rows(".gitconfig", "git", _GIT),
    *_rows(".lfsconfig", "git-lfs", "it names the server that files and passwords are sent to"),
    *_rows(".hg", "Mercurial", _GIT, "anywhere"),
    *_rows(".hgrc", "Mercurial", _GIT),
    *_rows(".jj", "Jujutsu", _GIT, "anywhere"),
    *_rows(".sl", "Sapling", _GIT, "anywhere"),
    *_rows(".bzr", "Bazaar", _GIT, "anywhere"),
    # Hooks of commits
    *_rows(".husky", "husky", _HOOKS),
    *_rows(".githooks", "git", "a folder that repositories commonly name for their hooks"),
    *_rows(".pre-commit-config.yaml", "pre-commit", _HOOKS),
    *_rows(".lefthook", "lefthook", _HOOKS),
    *_rows(
        "lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml "
        ".lefthook.json lefthook-local.yml lefthook-local.yaml lefthook-local.toml lefthook-local.json "
        ".lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml .lefthook-local.json",
        "lefthook",
        _HOOKS,
    ),
    *_rows(".overcommit.yml", "overcommit", _HOOKS),
    *_rows(".simple-git-hooks.*", "simple-git-hooks", _HOOKS),
    *_rows(".lintstagedrc*", "lint-staged", _HOOKS, kept=False, ordinary=True),
    # Agents
    *_rows(".metier skills-lock.json", "metier", _AGENT),
    *_rows(".claude .claude-plugin .mcp.json", "Claude Code", _AGENT),
    *_rows(".cursor .cursorrules", "Cursor", _AGENT),
    *_rows(".codex", "Codex", _AGENT),
    *_rows(".gemini", "Gemini CLI", _AGENT),
    *_rows(".windsurf .windsurfrules .codeium", "Windsurf", _AGENT),
    *_rows(".opencode opencode.json opencode.jsonc", "opencode", _AGENT),
    *_rows(".crush .crush.json crush.json", "Crush", _AGENT),
    *_rows(".cline .clinerules", "Cline", _AGENT),
    *_rows(".roo .roomodes .roorules", "Roo Code", _AGENT),
    *_rows(".kilocode .kilocodemodes", "Kilo Code", _AGENT),
    *_rows(".continue .continuerc.json", "Continue", _AGENT),
    *_rows(".aider.conf.yml .aider.model.settings.yml", "aider", _AGENT),
    *_rows(".goose .goosehints", "goose", _AGENT),
    *_rows(".amazonq .kiro", "Amazon Q and Kiro", _AGENT),
    *_rows(".qwen .qoder", "Qwen Code", _AGENT),
    *_rows(
        ".github/copilot-instructions.md .github/prompts .github/chatmodes .github/instructions "
        ".github/agents .github/hooks",
        "GitHub Copilot",
        _AGENT,
    ),
    *_rows(
        ".agent .amp .augment .codebuddy .copilot .factory .hermes .iflow .junie .kimi .openhands .pi .trae "
        ".warp .zencoder",
        "another agent",
        _AGENT,
    ),
    *_rows("agents", "an agent", _AGENT),
    *_rows("workspace/agents", "an agent", _AGENT),
    # Editors
    *_rows(".vscode *.code-workspace", "Visual Studio Code", _EDITOR),
    *_rows(".vs", "Visual Studio", _EDITOR),
    *_rows(".idea .run .fleet", "JetBrains IDEs", _EDITOR),
    *_rows(".zed", "Zed", _EDITOR),
    *_rows(".helix", "Helix", _EDITOR),
    *_rows(".nova", "Nova", _EDITOR),
    *_rows(".theia", "Theia", _EDITOR),
    *_rows("*.sublime-project *.sublime-workspace", "Sublime Text", _EDITOR),
    *_rows(".externalToolBuilders", "Eclipse", _EDITOR),
    *_rows(".kateproject", "Kate", _EDITOR),
    *_rows(".lite_project.lua", "Lite XL", _RULES),
    *_rows(".exrc .vimrc _vimrc .gvimrc .lvimrc .local.vimrc .vim", "Vim", _RULES),
    *_rows(".nvimrc .nvim.lua .nvim .lazy.lua .neoconf.json", "Neovim", _RULES),
    *_rows(".dir-locals.el .dir-locals-2.el .emacs .emacs.d", "Emacs", _RULES),
    *_rows(".ycm_extra_conf.py", "YouCompleteMe", _RULES),
    *_rows(".luarc.json", "the Lua language server", "it names plugins that the server executes"),
    *_rows(
        ".devcontainer .devcontainer.json .gitpod.yml .gitpod.Dockerfile .replit .idx",
        "development containers",
        "its commands run when the folder is opened",
    ),
    # Shells, and what they read in a folder
    *_rows(".envrc", "direnv", _TOOLS, "anywhere"),
    *_rows(".autoenv .autoenv.zsh .autoenv_leave.zsh", "autoenv", _TOOLS, "anywhere"),
    *_rows(
        ".env",
        "dotenv plugins",
        "shells and tools take variables from it that decide what runs",
        kept=False,
        ordinary=True,
    ),
    *_rows(".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc", "bash", _SHELL),
    *_rows(".zshrc .zshenv .zprofile .zlogin .zlogout", "zsh", _SHELL),
    *_rows(".kshrc .mkshrc .cshrc .tcshrc .login .logout .config/fish .config/nushell", "a shell", _SHELL),
    *_rows(
        ".xprofile .xinitrc .xsession .xsessionrc .xserverrc .pam_environment .config/autostart "
        ".config/environment.d .config/plasma-workspace",
        "the desktop",
        "it starts programs when a person logs in",
    ),
    *_rows(".config/systemd .local/share/systemd", "systemd", "it starts programs when a person logs in"),
    *_rows("Library/LaunchAgents Library/LaunchDaemons", "launchd", "it starts programs when a person logs in"),
    *_rows(".config/git", "git", _GIT),
    *_rows(".tmux.conf .screenrc .tmuxinator.yml .tmuxp.yaml", "tmux and screen", _PROMPT),
    *_rows(".ssh .gnupg", "SSH and GnuPG", "it names programs and keys that let others in"),
    *_rows(".curlrc _curlrc .wgetrc .netrc", "curl and wget", "it sets options of every download"),
    # Interpreters and debuggers that read a file of the folder they start in
    *_rows(".gdbinit .lldbinit .pdbrc .pdbrc.py .perldb .radare2rc", "a debugger", _PROMPT),
    *_rows(".Rprofile .Renviron", "R", _PROMPT),
    *_rows(
        ".pythonrc .irbrc .pryrc .ghci .iex.exs .erlang .octaverc .sqliterc .psqlrc .mysqlrc .noderc",
        "an interpreter",
        _PROMPT,
    ),
    *_rows("sitecustomize.py usercustomize.py", "Python", "Python executes it at every start that finds it"),
    *_rows(".pydistutils.cfg", "Python", _PACKAGES),
    # Versions of tools
    *_rows(".mise.toml .mise.local.toml .mise .rtx.toml .config/mise", "mise", _TOOLS, "anywhere"),
    *_rows("mise.toml mise.local.toml", "mise", _TOOLS, "anywhere", kept=False),
    *_rows(".tool-versions", "asdf", "it names the folders that tools are run from"),
    *_rows(
        "rust-toolchain rust-toolchain.toml",
        "rustup",
        "it names the folder that the compiler is run from",
        kept=False,
    ),
    *_rows("devbox.json", "devbox", _TOOLS, kept=False, ordinary=True),
    # Packages and builds
    *_rows(".npmrc .pnpmfile.cjs .pnpmfile.mjs pnpmfile.js", "npm and pnpm", _PACKAGES),
    *_rows(".yarnrc .yarnrc.yml .yarn/releases .yarn/plugins", "Yarn", _PACKAGES),
    *_rows(".bunfig.toml bunfig.toml", "Bun", _PACKAGES),
    *_rows(".pip .pypirc .condarc .config/pip .config/uv", "pip and conda", _PACKAGES),
    *_rows(".gemrc .bundle", "Ruby", _PACKAGES),
    *_rows(".cargo", "Cargo", _BUILD),
    *_rows(".mvn .sbtopts .jvmopts .mavenrc", "Maven and sbt", _BUILD),
    *_rows(".bazelrc .buckconfig .pants.rc", "Bazel, Buck and Pants", _BUILD),
    *_rows("package.json", "npm", "an install runs its scripts", kept=False, ordinary=True),
    *_rows("tools/bazel", "Bazel", _BUILD, kept=False, ordinary=True),
    *_rows("binding.gyp", "npm", "an install builds it, and so runs its commands", kept=False, ordinary=True),
    *_rows("*.pth", "Python", "Python executes its lines at every start", kept=False, ordinary=True),
    # What a person runs by name: only the first of its kind in a folder is looked at by the tool
    *_rows("GNUmakefile makefile Makefile", "make", _TASKS, kept=False, ordinary=True),
    *_rows("justfile .justfile", "just", _TASKS, kept=False, ordinary=True),
    *_rows(
        "Taskfile.yml Taskfile.yaml Taskfile.dist.yml Taskfile.dist.yaml",
        "Task",
        _TASKS,
        kept=False,
        ordinary=True,
    ),
    *_rows(
        "Rakefile Gruntfile.js gulpfile.js gulpfile.mjs Jakefile noxfile.py dodo.py Vagrantfile Tiltfile "
        "Earthfile SConstruct ansible.cfg",
        "a task runner",
        _TASKS,
        kept=False,
        ordinary=True,
    ),
    # Continuous integration
    *_rows(".github/workflows .github/actions", "GitHub Actions", _CI, "top"),
    *_rows(".forgejo .gitea", "Forgejo and Gitea", _CI, "top"),
    *_rows(".gitlab-ci.yml .gitlab", "GitLab", _CI, "top"),
    *_rows(".circleci", "CircleCI", _CI, "top"),
    *_rows(
        ".travis.yml .drone.yml .woodpecker .woodpecker.yml .woodpecker.yaml .appveyor.yml appveyor.yml "
        ".buildkite .cirrus.yml .semaphore .teamcity .tekton .harness .builds .build.yml azure-pipelines.yml "
        "bitbucket-pipelines.yml Jenkinsfile cloudbuild.yaml buildspec.yml",
        "continuous integration",
        _CI,
        "top",
    ),
)
"""Every file that is obeyed."""

PROTECTED: tuple[str, ...] = tuple(dict.fromkeys(row.pattern for row in OBEYED if row.kept and "*" not in row.pattern))
"""Paths in a writable folder that stay read-only: those of the table that are kept and have one name.

The folders that products keep skills in are not listed: `SandboxSpec.protected` brings them.  `AGENTS.md` and
`CLAUDE.md` may be written: some skills are for that.
"""


# --- Finding one ---

_PACKAGE_FOLDERS = ("/node_modules/", "/site-packages/")
"""Packages that were installed: many bring settings of their authors' editors, and nobody opens them as projects."""
_UNLISTED = ObeyedFile("", "an agent", "skills and agents are read from it")
BARE = ObeyedFile("HEAD", "git", _GIT, "anywhere")
"""A repository without a `.git`: any folder with these entries is one."""


GIT_ENTRIES = frozenset(
    (
        *("HEAD", "config", "config.worktree", "hooks", "info", "modules", "worktrees"),
        *("commondir", "gitdir", "remotes", "branches", "rebase-merge", "rebase-apply"),
    )
)
"""What git obeys in a repository."""


def is_bare_repository(names: Collection[str]) -> bool:
    """Whether git takes a folder with these entries for a repository."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def folded_name(name: str) -> str:
    """A name as file systems that ignore case, and some characters, compare it; names in the table are ASCII."""
    if name.isascii():
        return name.lower()
    return "".join(letter for letter in name.casefold() if letter.isascii())


class ObeyedNames:
    """The table, and the folders that skills are read from, by name."""

    def __init__(self, extra: tuple[str, ...]) -> None:
        self._rows: dict[str, list[tuple[str, ObeyedFile]]] = {}
        globs: list[tuple[str, ObeyedFile]] = []
        known = {row.pattern for row in OBEYED}
        # New folders of skills without a dot are not trusted before somebody approves them; they need no sweep.
        more = [_UNLISTED._replace(pattern=name) for name in extra if name not in known and name.startswith(".")]
        for row in (*OBEYED, *more):
            above, _, last = row.pattern.rpartition("/")
            if "*" in last:
                start, _, end = last.partition("*")
                globs.append((f"{re.escape(start)}.*{re.escape(end)}", row))
            elif row.pattern not in ("agents", "workspace/agents"):
                self._rows.setdefault(last.lower(), []).append((f"/{above}" if above else "", row))
        self._globs = [row for _, row in globs]
        self._glob = re.compile("|".join(f"({pattern})" for pattern, _ in globs), re.IGNORECASE).fullmatch
        self._outer = {row.pattern.split("/")[0] for row in (*OBEYED, *more) if "/" in row.pattern}

    def find(self, folder: str, name: str, top: bool) -> ObeyedFile | None:
        """The row for an entry of a folder; `top` says that the folder is the top of a project or a repository."""
        for above, row in self._rows.get(name) or self._rows.get(folded_name(name)) or ():
            if folder.endswith(above) and _in_scope(row, folder, top or bool(above)):
                return row
        match = self._glob(name)
        if match and match.lastindex:
            row = self._globs[match.lastindex - 1]
            return row if _in_scope(row, folder, top) else None
        return None

    def outer(self, name: str) -> bool:
        """Whether paths of the table begin with this name."""
        return name in self._outer

    def leads_to(self, path: str) -> ObeyedFile | None:
        """The row that a link stands for: it is the first part of a path of the table, and the rest exists in it."""
        name = os.path.basename(path)
        for rows in self._rows.values():
            for _, row in rows:
                if row.pattern.startswith(f"{name}/") and os.path.lexists(path + row.pattern[len(name) :]):
                    return row
        return None


def _in_scope(row: ObeyedFile, folder: str, top: bool) -> bool:
    if row.scope == "anywhere":
        return True
    if row.scope == "top" and not top:
        return False
    inside = f"{folder}/"
    return not any(packages in inside for packages in _PACKAGE_FOLDERS)


@lru_cache(maxsize=8)
def obeyed_names(extra: tuple[str, ...] = ()) -> ObeyedNames:
    """The table with these folders of skills."""
    return ObeyedNames(extra)
