"""The book's pages of the programs' options and of the scripts, from what each says with --help. Called by hack/generate.

    cli_reference.py names             prints the names of the pages
    cli_reference.py page NAME FOLDER  prints one of them; the programs are in FOLDER
"""

import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import cli_help
from cli_help import Options, Text, Verbatim

ROOT = Path(__file__).resolve().parents[2]

# Each program, the page of its options, and how the page begins.
PROGRAMS = {
    "readstates": ("cli-readstates", "The service: members of the cache, and the commands that work on their data."),
    "readstates-bench": ("cli-bench", "The generator of load, a program of its own."),
    "operator": ("cli-operator", "The operator, and its agent in database pods."),
    "superdisk": ("cli-superdisk", "The super-disk. Exit status: 0 done, 1 failed, 2 wrong usage, 3 [refused](refusals.md)."),
}
SCRIPTS = "cli-hack"
# What the book says elsewhere about a command.
GUIDES = {
    "readstates backup": "../how-to/backups.md",
    "readstates migrate": "../how-to/migrate.md",
    "readstates import": "../how-to/import.md",
    "readstates mirror": "../how-to/mirror.md",
    "readstates-bench": "../explanation/benchmarks.md",
}
# Options that many commands share, and the heading under which they stand once for all of them.
SHARED = {
    "Connection to a CQL database": "--claim --cql-local-dc --cql-user --cql-password-file --cql-ca-file --cql-cert-file --cql-key-file",
    "Connection to the target of a move": "--to-claim --to-cql-local-dc --to-cql-user --to-cql-password-file --to-cql-ca-file "
    "--to-cql-cert-file --to-cql-key-file",
    "Connection to a service": "--url --token-file --ca-file --cert-file --key-file",
    "Place of backups": "--backups --encryption-key-file --backups-ca-file",
    "Which super-disk": "--durable --local --local-count --volume-uid --disk --mount --fs --used-before --copy-of --restored "
    "--fast-leg --grow --rebuild-min --rebuild-max --state-dir",
}

Command = namedtuple("Command", "words help")


def help_of(folder, words):
    """What a command says with --help, with each paragraph on one line."""
    run = [str(folder / words[0]), *words[1:], "--help"]
    # Nothing of this environment is in it, and no terminal says how wide a line is.
    done = subprocess.run(run, env={"COLUMNS": "1000000"}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(run)} failed: {done.stderr}")
    return cli_help.parse(done.stdout)


def commands(folder, words):
    """Yields the commands of a program, each group before what is in it."""
    command = Command(words, help_of(folder, words))
    yield command
    for name in command.help.commands:
        yield from commands(folder, [*words, name])


def is_group(command):
    return bool(command.help.commands)


# --- Markdown ---

CODE = re.compile(r"(`[^`]*`)")
# Options, addresses and environment variables are code, also where the text has no backticks around them.
NAMES = re.compile(r"(?<![\w-])(--[a-z][a-z-]*|\w+://(?:\[[^\]\s]*\]|[^\s,;\[])*(?:\[[^\]\s]*\]|[^\s,;.:)\[])|[A-Z]+(?:_[A-Z]+)+)")


def prose(text):
    """A paragraph, in Markdown."""
    parts = []
    for part in CODE.split(text):
        if not part.startswith("`"):
            part = CODE.split(NAMES.sub(r"`\1`", part))
            part = "".join(p if p.startswith("`") else re.sub(r"([<*\[])", r"\\\1", p) for p in part)
        parts.append(part)
    return "".join(parts)


def code(text):
    return f"`{text}`"


def cell(text):
    return text.replace("|", "\\|")


def sentence(text):
    text = text.rstrip()
    return text if not text or text[-1] in ".:;!?" else text + "."


def fenced(lines, language):
    return "\n".join([f"```{language}", *lines, "```"])


def anchor(title):
    return re.sub(r"\s", "-", title.lower())


def table(head, rows):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(map(cell, row))} |" for row in rows])


def meaning(option):
    """What an option means, without what cannot stand in a table."""
    told = " ".join(sentence(prose(text)) for text in option.paragraphs)
    parts = [told.removesuffix("For example:").rstrip() if option.verbatim else told]
    if option.values:
        parts += [f"{code(value)}: {sentence(prose(text))}" if text else code(value) for value, text in option.values]
    return "<br>".join(parts)


def row(option):
    name = code(option.name) + (f"<br>{code(option.env)}" if option.env else "")
    default = code(option.default) if option.default is not None else option.required
    return name, default, meaning(option)


def options_table(options):
    yield table(["option", "default", "meaning"], [row(option) for option in options])
    for option in options:
        if option.verbatim:
            yield f"Example of {code(option.flag or option.name)}:"
            yield fenced(option.verbatim, "yaml")


def shared_by(options, groups):
    """The shared groups that options have whole: their titles, and the options that are left."""
    titles, left = [], list(options)
    for title, group in groups.items():
        if all(option in left for option in group):
            titles.append(title)
            left = [option for option in left if option not in group]
    return titles, left


def body(command, groups, everywhere):
    """What stands below a command's heading."""
    words, said = " ".join(command.words), command.help
    if said.about:
        yield sentence(prose(said.about[0]))
    yield from (sentence(prose(text)) for text in said.about[1:])
    if words in GUIDES:
        yield f"[How to use it]({GUIDES[words]})."
    if not is_group(command):
        yield fenced([said.usage], "text")
    for section in said.sections:
        if isinstance(section, Options):
            options = [option for option in section.options if option not in everywhere]
            titles, options = shared_by(options, groups)
            if section.title not in ("Options", "Arguments") and options:
                yield f"{section.title}:"
            if options:
                yield from options_table(options)
            if titles:
                links = ", ".join(f"[{title[0].lower()}{title[1:]}](#{anchor(title)})" for title in titles)
                yield f"And the options of: {links}."
        elif isinstance(section, Verbatim):
            yield fenced(section.lines, section.language)
        elif isinstance(section, Text):
            yield sentence(prose(section.text))


def found_groups(leaves):
    """The shared groups of a program: {title: options}, each as the first command that has it whole says it."""
    groups = {}
    for title, names in SHARED.items():
        flags = names.split()
        for leaf in leaves:
            options = {option.flag: option for option in cli_help.options(leaf.help)}
            if all(flag in options for flag in flags):
                groups[title] = [options[flag] for flag in flags]
                break
    return {title: group for title, group in groups.items() if sum(has_whole(leaf, group) for leaf in leaves) > 1}


def has_whole(leaf, group):
    options = list(cli_help.options(leaf.help))
    return all(option in options for option in group)


def program_page(folder, program):
    _, about = PROGRAMS[program]
    listed = list(commands(folder, [program]))
    leaves = [command for command in listed if not is_group(command)]
    groups = found_groups(leaves)
    everywhere = [
        option for option in cli_help.options(leaves[0].help) if len(leaves) > 1 and all(has_whole(leaf, [option]) for leaf in leaves)
    ]
    yield f"# {program}"
    yield f"{about} Written by `hack/generate` from what each command says with `--help`."
    if everywhere:
        yield "Every command has:"
        yield from options_table(everywhere)
    endings = {}
    for command in listed:
        words = " ".join(command.words)
        said = command.help
        if len(command.words) > 1:
            yield f"{'##' if len(command.words) == 2 else '###'} {words}"
        elif is_group(command):
            continue
        # Commands of one group often end with the same examples: they stand where they come first.
        first = endings.setdefault(tuple(said.ending), words) if said.ending else words
        if first != words:
            command = Command(command.words, said._replace(sections=[s for s in said.sections if s not in said.ending]))
        yield from body(command, groups, everywhere)
        if first != words and not is_group(command):
            yield f"Examples: [{first}](#{anchor(first)})."
    for title, options in groups.items():
        yield f"## {title}"
        yield from options_table(options)


def index_rows(folder, program):
    page, _ = PROGRAMS[program]
    for command in commands(folder, [program]):
        if is_group(command):
            continue
        words = " ".join(command.words)
        place = f"{page}.md" + (f"#{anchor(words)}" if len(command.words) > 1 else "")
        guide = next((link for name, link in GUIDES.items() if f"{words} ".startswith(f"{name} ")), None)
        yield f"[{code(words)}]({place})", first_sentence(prose(command.help.about[0])), f"[guide]({guide})" if guide else ""


def first_sentence(text):
    return re.split(r"(?<=[.:]) (?=[A-Z`])", text)[0].rstrip(".:")


def scripts():
    """Yields (name, lines) of each script of hack/: the comment that its --help prints."""
    for path in sorted((ROOT / "hack").iterdir()):
        if path.is_file() and path.read_bytes().startswith(b"#!"):
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
            yield f"hack/{path.name}", [line[2:] if line.startswith("# ") else line[1:] for line in lines[:end]]


def split_script(lines):
    """The first paragraph of a script's comment, and the rest of its lines."""
    end = lines.index("") if "" in lines else len(lines)
    return " ".join(lines[:end]), lines[end + 1 :]


def index_page(folder):
    yield "# Programs and their commands"
    yield (
        "Each program and command has `--help`; these pages are made of it. An environment variable below an option sets it, too: "
        "what the command line says counts."
    )
    for program, (page, _) in PROGRAMS.items():
        yield f"## {program}"
        yield table(["command", "does", ""], index_rows(folder, program))
    yield "## hack"
    yield "What a contributor runs. `hack/NAME --help` says the same as [their page](cli-hack.md)."
    rows = [(f"[{code(name)}]({SCRIPTS}.md#{name.replace('/', '')})", first_sentence(split_script(lines)[0])) for name, lines in scripts()]
    yield table(["script", "does"], rows)


def scripts_page(_folder):
    yield "# Scripts"
    yield "What the scripts of `hack/` say with `--help`. Written by `hack/generate`; [Testing](../explanation/testing.md) says when to run which."
    for name, lines in scripts():
        about, rest = split_script(lines)
        yield f"## {name}"
        yield prose(about)
        if rest:
            yield fenced(rest, "text")


def page(name, folder):
    if name == "cli":
        return index_page(folder)
    if name == SCRIPTS:
        return scripts_page(folder)
    return program_page(folder, next(program for program, (page, _) in PROGRAMS.items() if page == name))


if __name__ == "__main__":
    if sys.argv[1] == "names":
        print("cli", *(page for page, _ in PROGRAMS.values()), SCRIPTS, sep="\n")
    else:
        print(*page(sys.argv[2], Path(sys.argv[3]).resolve()), sep="\n\n")
