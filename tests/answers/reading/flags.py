"""The flags of commands that may read another machine, parsed."""

from argparse import ArgumentParser, Namespace

from exporter.answers.reading.accessflags import add_arguments


def parser(*, prometheus: bool = False) -> ArgumentParser:
    """A command with nothing but these flags."""
    made = ArgumentParser()
    add_arguments(made, prometheus=prometheus)
    return made


def arguments(*given: str, prometheus: bool = False) -> Namespace:
    """What it makes of this command line."""
    return parser(prometheus=prometheus).parse_args(given)
