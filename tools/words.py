"""Finds words in code and documents that are not used here: those of ``tools/words.toml``.

Usage: ``python tools/words.py [PATH ...]``, where a path is the beginning of a file's name. Prints
``file:line: word (write: …)`` and exits with 1 if any is found. Identifiers are split at
underscores and capitals, so ``told_apart`` holds "told".
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = "tools/words.toml"
SUFFIXES = {".py", ".md", ".js", ".html", ".tpl"}
DATA = {".json", ".yaml", ".yml"}
EXEMPT_FILES = {"CHANGELOG.md", "tools/words.py"}  # history, and an example
EVERYWHERE = "allot"  # words that begin so are refused in all files, names and tests included
FOLDERS = ("exporter/", "docs/", "charts/", "dashboards/", "rules/")
PAGES = {"README.md", "CONTRIBUTING.md", "SECURITY.md"}
# Names of the public interface: metrics, alerts, flags and their values.
EXEMPT = re.compile(
    r"\bmgpu_\w+|\bMgpu\w+|--[a-z][\w.-]*(=[\w-]+)?|\bMGPU_\w+"
    r"|<a id=\"[\w-]+\">"  # anchors that are kept for links from elsewhere
    r"|\b(?:vke|tke|volcano|hami|cgpu)[\w.-]*[./][\w./-]+"  # annotations of sharing systems
    r'|"(?:told|told_apart|untold)"'  # keys of the recordings' file format
)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def banned(listed: str) -> dict[str, str]:
    """The words that are not to be used, each with what to write instead."""
    groups = tomllib.loads(listed)["instead"]
    return {word: group["write"] for group in groups for word in group["words"]}


def found(text: str, words: dict[str, str]) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and the banned words on them."""
    phrases = [word for word in words if " " in word]
    for number, line in enumerate(text.splitlines(), 1):
        plain = EXEMPT.sub("", line)
        everywhere = [w for w in WORD.findall(line) if w.lower().startswith(EVERYWHERE)]
        for word in dict.fromkeys([*WORD.findall(plain), *everywhere]):
            if word.lower() in words:
                yield number, word.lower()
        lower = plain.lower()
        for phrase in phrases:
            if re.search(rf"\b{re.escape(phrase)}\b", lower):
                yield number, phrase


def files() -> list[str]:
    """The tracked files that are looked at."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        name
        for name in listed.stdout.splitlines()
        if Path(name).suffix in SUFFIXES | DATA and name not in EXEMPT_FILES
    ]


def words_for(name: str, words: dict[str, str]) -> dict[str, str]:
    """The words of the list that are not to be used in this file."""
    if (name.startswith(FOLDERS) or name in PAGES) and Path(name).suffix in SUFFIXES:
        return words
    return {word: instead for word, instead in words.items() if word.startswith(EVERYWHERE)}


def main() -> int:
    """Print what is found; the exit status."""
    words = banned((ROOT / LIST).read_text(encoding="utf-8"))
    count = 0
    for name in files():
        if not name.startswith(tuple(sys.argv[1:]) or ""):
            continue
        path = ROOT / name
        if not path.exists():
            continue
        text = f"{path.read_text(encoding='utf-8')}\n{name}"
        for number, word in found(text, words_for(name, words)):
            print(f"{name}:{number}: {word} (write: {words[word]})")
            count += 1
    print(f"{count} words of {LIST}" if count else "no word of the list")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
