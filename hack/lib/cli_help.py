"""Reads what a program says with --help, as clap writes it when nothing limits its lines."""

import re
from collections import namedtuple

# One option or argument. `name` has its value (`-c, --connections <N>`), `flag` is its long name, or empty for an argument.
# `required` says whether the
# usage asks for it, `values` is [(value, what it means)], `verbatim` the lines of an example.
Option = namedtuple("Option", "name flag env default required paragraphs values verbatim")
Options = namedtuple("Options", "title options")
Text = namedtuple("Text", "text")
Verbatim = namedtuple("Verbatim", "lines language")
# `commands` are the names of those below it, `ending` the sections that follow the options. Arguments, and options without a
# heading of their own, are one section.
Help = namedtuple("Help", "about usage commands sections ending")

OPTION = re.compile(r"^ {2,6}(?P<name>(?:-\w, )?--?[\w-]+(?: <[^>]*>| \[<[^>]*>\])?(?:\.\.\.)?)(?:  +(?P<text>\S.*))?$")
ARGUMENT = re.compile(r"^  (?P<name>[<\[][A-Z_@:|-]+[>\]](?:\.\.\.)?)(?:  +(?P<text>\S.*))?$")
HEADING = re.compile(r"^(?P<title>\S.*):$")
NOTE = re.compile(r"(?:^| )\[(?P<key>env|default|possible values|aliases): (?P<value>(?:(?! \[[\w ]+: ).)*)\]$")
UNWANTED = {"--help", "--version"}


def parse(text):
    lines = [line.rstrip() for line in text.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("Usage: "))
    usage = lines[start].removeprefix("Usage: ")
    names, sections, ending = [], [], []
    for title, block in blocks(lines[start + 1 :]):
        first = next((line for line in block if line), "")
        if title == "Commands":
            names = [line.split()[0] for line in block if re.match(r"^  \S", line)]
        elif title and (OPTION.match(first) or ARGUMENT.match(first)) and not ending:
            options = [option for option in read_options(block, usage) if option.flag not in UNWANTED]
            if title == "Options" and sections and sections[-1].title == "Arguments":
                sections[-1].options.extend(options)
            elif options:
                sections.append(Options(title, options))
        else:
            ending += list(free(title, block))
    return Help(paragraphs(lines[:start]), usage, [name for name in names if name != "help"], sections + ending, ending)


def options(said):
    """All options of a command."""
    return (option for section in said.sections if isinstance(section, Options) for option in section.options)


def blocks(lines):
    """Yields (heading or None, lines below it)."""
    title, block = None, []
    for line in lines:
        if heading := HEADING.match(line):
            yield title, block
            title, block = heading["title"], []
        elif line and not line.startswith(" ") and title:
            yield title, block
            title, block = None, [line]
        else:
            block.append(line)
    yield title, block


def paragraphs(lines):
    """Runs of lines between empty ones, each as one line."""
    return [" ".join(line.strip() for line in run) for run in runs(lines)]


def runs(lines):
    run = []
    for line in [*lines, ""]:
        if line:
            run.append(line)
        elif run:
            yield run
            run = []


def free(title, block):
    """What follows the options: text, and examples below lines that introduce them."""
    if title is None:
        yield from map(Text, paragraphs(block))
    elif title.startswith("Example of "):
        yield Text(f"{title}:")
        yield Verbatim(tuple(line[2:] for run in runs(block) for line in run), "yaml")
    else:
        lines = [line for run in runs(block) for line in run]
        while lines:
            told = lines.pop(0).strip()
            commands = []
            while lines and lines[0].startswith("    "):
                commands.append(lines.pop(0)[4:])
            yield Text(told)
            if commands:
                yield Verbatim(tuple(commands), "sh")


def read_options(block, usage):
    """The options of a section."""
    heads = [number for number, line in enumerate(block) if OPTION.match(line) or ARGUMENT.match(line)]
    for number, end in zip(heads, [*heads[1:], len(block)]):
        head = OPTION.match(block[number]) or ARGUMENT.match(block[number])
        flag = re.search(r"--[\w-]+", head["name"])
        yield read_option(head["name"], flag[0] if flag else "", [head["text"] or "", *block[number + 1 : end]], usage)


def read_option(name, flag, lines, usage):
    notes, told, verbatim, values = {}, [], [], []
    inner = [line[10:] if line.startswith(" " * 10) else line.strip() for line in lines]
    for run in runs(inner):
        if run[0] == "Possible values:":
            values = [tuple(line.removeprefix("- ").split(": ", 1)) for line in run[1:]]
            continue
        if any(line.startswith(" ") for line in run):
            verbatim += run
            continue
        text = " ".join(run)
        while note := NOTE.search(text):
            notes[note["key"]], text = note["value"], text[: note.start()]
        if text:
            told.append(text)
    if "possible values" in notes:
        values = [(value, "") for value in notes["possible values"].split(", ")]
    values = [(value, rest[0].strip() if rest else "") for value, *rest in values]
    return Option(name, flag, notes.get("env", "").rstrip("="), notes.get("default"), need(name, flag, usage), told, values, verbatim)


def need(name, flag, usage):
    """Whether the usage asks for an option: "required", "this or another", or nothing."""
    if flag and re.search(rf"<[^>]*{flag} .*\||\|{flag} ", usage):
        return "this or another"
    return "required" if re.search(rf"(?<![\[\w-]){re.escape(flag or name)}(?![\w-])", usage) else ""
