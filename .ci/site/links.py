"""MkDocs hook: links out of docs/ work on the source host and on the site.

README.md is the first page of the site. Any other file that a page links to is a page under repository/:
as it is if it is Markdown, else in a code block.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

HOME = "README.md"
LINK = re.compile(r"(?<=\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the first page and, from link to link, each file outside of docs/ that a page links to."""
    root = Path(config.docs_dir).parent
    pending = [HOME, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    for path in pending:
        if not path.startswith("docs/"):
            in_nav = InclusionLevel.UNDEFINED if path.endswith(".md") else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, _page(path), content=_content(root, path), inclusion=in_nav))
        if path.endswith(".md"):
            targets = {_target(path, link) for link in LINK.findall((root / path).read_text(encoding="utf-8"))}
            known = {*pending, *(target for target in targets if target.startswith(("docs/", "..")))}
            pending += sorted(target for target in targets - known if (root / target).exists())
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The same links, between pages of the site."""
    here, root = page.file.src_uri, Path(config.docs_dir).parent
    path = HOME if here == "index.md" else here.removeprefix("repository/") if "repository/" in here else f"docs/{here}"

    def on_site(link: re.Match[str]) -> str:
        target = _target(path, link[0])
        return relpath(_page(target), dirname(here) or ".") if (root / target).exists() else link[0]

    return LINK.sub(on_site, markdown) if (root / path).is_file() else markdown


def _target(path: str, link: str) -> str:
    """The path in the repository of what a file at `path` links to."""
    return normpath(join(dirname(path), link))


def _page(path: str) -> str:
    if path == HOME or path.startswith("docs/"):
        return "index.md" if path == HOME else path.removeprefix("docs/")
    return f"repository/{path}{'' if path.endswith('.md') else '.md'}"


def _content(root: Path, path: str) -> str:
    if (root / path).is_dir():
        names = sorted(file.name for file in (root / path).iterdir() if not file.name.startswith("."))
        return "\n".join([f"# {path}", "", *(f"- `{name}`" for name in names)])
    text = (root / path).read_text(encoding="utf-8")
    return text if path.endswith(".md") else f"# {path}\n\n````{Path(path).suffix[1:]}\n{text}````\n"
