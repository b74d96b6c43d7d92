"""`moab transform`: the mapping of a platform as JavaScript, for a webhook of Inngest Cloud."""

from typing import Annotated

import typer

from app.cli.service import read_settings


def transform(
    platform: Annotated[str, typer.Argument(metavar="PLATFORM", help="Such as telegram, slack or generic.")],
    given: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]", help="Such as bot.username=my_bot.")
    ] = None,
) -> None:
    """Print a platform's transform, to be pasted into a webhook of Inngest Cloud."""
    from app.transforms import transform_of

    pairs = dict(one.partition("=")[::2] for one in given or ())
    typer.echo(transform_of(platform, read_settings(), pairs))
