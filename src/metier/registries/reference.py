"""Parse a source as a person writes it: text -> SourceReference, or a refusal.

Nothing here touches the machine; what exists at a path is passed in.  `owner/repo` wins over a folder of that name, so
that a folder in the working directory can't take the place of a repository: folders are written `./folder`.  What
reaches git or a shell later is checked here once, by allow lists of characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from ..types.errors import BadRequest
from ..types.installed import SourceReference

LocalKind: TypeAlias = Literal["", "folder", "file", "repository"]
"""What is at a path of this machine."""

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz", ".skill", ".tar", ".tar.bz2", ".tbz2", ".tar.xz")
_FORMS_HINT = "use owner/repo, owner/repo/path, registry:name, a git or archive URL, or ./folder"
_owner = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*").fullmatch
_repo = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]*").fullmatch
_part = re.compile(r"[\w.+=,][\w.+=,-]*").fullmatch
_scp = re.compile(r"(?:[A-Za-z0-9_.-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^\s:][^\s]*").fullmatch
_prefixed = re.compile(r"([A-Za-z][A-Za-z0-9._+-]*):(?!//)(\S+)").fullmatch
_forbidden = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\"'`$;&|<>(){}\\^*!]").search
_INSECURE_SCHEMES = ("http", "git", "file")
_COMMIT = re.compile(r"[0-9a-f]{40}").fullmatch


def parse_github(spec: str) -> SourceReference:
    """`owner/repo`, `owner/repo/path`, either with `@ref`, and URLs of github.com."""
    text = spec.strip()
    if "://" in text:
        return _parse_github_url(text)
    body, at, ref = text.partition("@")
    parts = (body[:-1] if body.endswith("/") else body).split("/")
    if len(parts) < 2:
        raise _bad_source(spec, "a repository has an owner and a name")
    return _github_reference(spec, parts[0], parts[1], parts[2:], _checked_ref(spec, ref) if at else "")


def _parse_github_url(text: str) -> SourceReference:
    # Before parsing: urlsplit drops tabs and line breaks silently.
    if _forbidden(text):
        raise _bad_source(text, "it contains spaces, control or shell characters")
    try:
        url = urlsplit(text)
        unusual = url.port not in (None, 443) or url.username is not None
    except ValueError:
        raise _bad_source(text, "it is not a URL") from None
    if url.scheme.lower() != "https" or url.hostname != "github.com" or unusual:
        raise _bad_source(text, "it is not a URL of github.com")
    parts = url.path.strip("/").split("/")
    if len(parts) < 2:
        raise _bad_source(text, "a repository has an owner and a name")
    owner, repo, *rest = parts
    if not rest:
        return _github_reference(text, owner, repo, [], "")
    if rest[0] != "tree" or len(rest) < 2:
        raise _bad_source(text, f"`/{rest[0]}/` is not a folder of a repository; use the URL of the folder (`/tree/…`)")
    return _github_reference(text, owner, repo, rest[2:], _checked_ref(text, rest[1]))


def _github_reference(spec: str, owner: str, repo: str, path: list[str], ref: str) -> SourceReference:
    repo = repo.removesuffix(".git")
    if not _owner(owner):
        raise _bad_source(spec, f"`{owner}` is not a valid owner")
    if not _repo(repo) or repo in (".", ".."):
        raise _bad_source(spec, f"`{repo}` is not a valid repository name")
    for part in path:
        # A part may not start with `-`: git would take it for an option.
        if not _part(part) or part in (".", ".."):
            raise _bad_source(spec, f"`{part}` is not valid in a path")
    url = f"https://github.com/{owner}/{repo}.git"
    return SourceReference("github", spec.strip(), url, "/".join(path), ref, owner, repo)


def _checked_ref(spec: str, ref: str) -> str:
    """A branch, tag or commit; refuses what git would take for an option or a range."""
    malformed = (
        not re.fullmatch(r"[\w.+/=,@-]+", ref) or ref.startswith(("-", "/", ".")) or ref.endswith(("/", ".", ".lock"))
    )
    if malformed or ref == "@" or ".." in ref or "//" in ref:
        raise _bad_source(spec, f"`{ref}` is not a branch, tag or commit")
    return ref


def without_password(text: str) -> str:
    """A source without its password, to show and store."""
    return re.sub(r"(?<=://)[^/\s@]*@", "", text)


def _bad_source(spec: str, why: str) -> BadRequest:
    return BadRequest(f"`{without_password(spec)[:200]}` is not a source: {why}", _FORMS_HINT)


def parse_reference(
    spec: str,
    local: LocalKind = "",
    before_at: LocalKind = "",
    insecure: bool = False,
    registries: Sequence[str] | None = None,
) -> SourceReference:
    """Parse a source.  `local` is what exists at that path, `before_at` what exists at the part before its `@`."""
    text = spec.strip()
    if not text:
        raise _bad_source(spec, "it is empty")
    if text.startswith("-"):
        raise _bad_source(spec, "it looks like an option")
    if local == "file" and text.lower().endswith(ARCHIVE_SUFFIXES):
        return SourceReference("archive", text, text, repo=_archive_stem(text))
    if _is_path(text):
        return _local_reference(text, local, before_at)
    if registries is not None and (registered := _registry_reference(text, registries)) is not None:
        return registered
    try:
        return parse_github(text)
    except BadRequest as refusal:
        if "://" in text:
            return _url_reference(text, insecure)
        if _scp(text) and not _forbidden(text):
            return _git_reference(text, text, "", "")
        if "/" not in text and text.lower().endswith(ARCHIVE_SUFFIXES):
            raise BadRequest(f"{text[:200]} does not exist", "pass an existing archive, or its URL", text) from None
        if local:
            raise BadRequest(f"{refusal.message}", f"for the {local} of that name here, use ./{text}") from None
        raise


def _registry_reference(text: str, registries: Sequence[str]) -> SourceReference | None:
    """`clawhub:owner/slug`; None for what is not written with a prefix, and for `host:path` of git."""
    match = _prefixed(text)
    if match is None:
        return None
    prefix, body = match[1], match[2]
    if prefix in registries:
        if _forbidden(body) or body.startswith("-"):
            raise _bad_source(text, "it contains spaces, control or shell characters")
        return SourceReference("registry", text, "", body, owner=prefix, repo=_registered_name(body))
    near = get_close_matches(prefix.lower(), registries, 1, 0.75)
    # `host:path` is git's own form; a name without a dot is more likely a registry that is not there.
    if not near and ("." in prefix or body.endswith(".git") or body.startswith(("/", "~"))):
        return None
    known = f"known: {', '.join(registries)}" if registries else "`registries` is empty in the configuration"
    hint = f"did you mean `{near[0]}`? {known}" if near else f"{known}; for a git server, write ssh://{prefix}/path"
    raise BadRequest(f"no registry named `{prefix}`", hint)


def _registered_name(body: str) -> str:
    """The likely name of what a registry has under this name."""
    return re.split(r"[/#]", body[:1] + body[1:].partition("@")[0])[-1]


def _is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~/")) or text in (".", "..", "~")


def _local_reference(text: str, local: LocalKind, before_at: LocalKind) -> SourceReference:
    name = text.rstrip("/").rpartition("/")[2]
    if local == "file":
        raise BadRequest(f"{text} is a file, not an archive", "archives end in " + ", ".join(ARCHIVE_SUFFIXES), text)
    if local == "folder":
        return SourceReference("folder", text, text, repo=name)
    if local == "repository":
        return SourceReference("git", text, text, repo=name.removesuffix(".git"))
    path, at, ref = text.rpartition("@")
    if at and before_at == "repository":
        return SourceReference("git", text, path, "", _checked_ref(text, ref), repo=path.rstrip("/").rpartition("/")[2])
    raise BadRequest(f"{text} does not exist", "pass a folder, a git repository or an archive", text)


def _url_reference(text: str, insecure: bool) -> SourceReference:
    """Any other URL: an archive by its suffix, an index by its path, else a git repository."""
    if _forbidden(text):
        raise _bad_source(text, "it contains spaces, control or shell characters")
    text = text.removeprefix("git+")
    try:
        url = urlsplit(text)
        host, user, password, _ = url.hostname, url.username, url.password, url.port
    except ValueError:
        raise _bad_source(text, "it is not a URL") from None
    scheme = url.scheme.lower()
    # `ext::` and other remote helpers of git run commands.
    if scheme not in ("https", "ssh", *_INSECURE_SCHEMES) or "::" in url.scheme:
        raise _bad_source(text, f"`{scheme}` is not supported; use https or ssh")
    if scheme in _INSECURE_SCHEMES and not insecure:
        raise BadRequest(f"`{scheme}` is not secure", "use https or ssh, or pass --allow-insecure")
    if scheme != "file" and (not host or host.startswith("-")):
        raise _bad_source(text, "it has no host")
    if scheme == "file" and host:
        raise _bad_source(text, "a file URL takes no host")
    secret = ""
    if scheme in ("https", "http") and user is not None:
        # The password is kept apart, so that no message and no lock shows it.
        secret = f"{unquote(user)}:{unquote(password or '')}"
        text = text.replace(url.netloc, url.netloc.rpartition("@")[2], 1)
    plain = text.partition("#")[0]
    if scheme in ("https", "http"):
        path = url.path
        if path.lower().endswith(ARCHIVE_SUFFIXES):
            return SourceReference("archive", text, plain, repo=_archive_stem(path), secret=secret)
        if "/.well-known/" in path or path in ("", "/"):
            return SourceReference("index", text, plain, repo=host or "", secret=secret)
    return _git_reference(text, plain, secret, url.path)


def _git_reference(spec: str, url: str, secret: str, path: str) -> SourceReference:
    """A git repository; accepts `@ref` after its path, and the `/tree/` URLs of other hosts."""
    inner, ref = "", ""
    for marker in ("/-/tree/", "/tree/"):
        if path and marker in path:
            rest = path.partition(marker)[2].strip("/").split("/")
            url, ref, inner = url.partition(marker)[0], _checked_ref(spec, rest[0]), "/".join(rest[1:])
            break
    else:
        last = url.rpartition("/")[2]
        if "@" in last:
            ref = _checked_ref(spec, last.partition("@")[2])
            url = url[: len(url) - len(last)] + last.partition("@")[0]
    url = url.partition("?")[0].rstrip("/")
    for part in inner.split("/") if inner else ():
        if not _part(part) or part in (".", ".."):
            raise _bad_source(spec, f"`{part}` is not valid in a path")
    name = re.split(r"[/:]", url)[-1].removesuffix(".git")
    return SourceReference("git", spec, url, inner, ref, repo=name, secret=secret)


def _archive_stem(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    ending = next(suffix for suffix in sorted(ARCHIVE_SUFFIXES, key=len, reverse=True) if name.lower().endswith(suffix))
    return name[: -len(ending)]


def is_commit(ref: str) -> bool:
    return _COMMIT(ref) is not None
