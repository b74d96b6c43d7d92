"""Transforms for webhooks of Inngest Cloud: the mapping of a way in, as JavaScript that runs there.

For people without a public address of their own who use the cloud: the platform posts to Inngest, the transform makes
the event that this service would have made, and Inngest calls the service. Source: inngest.com/docs, "Webhooks".
"""

import importlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from app.config import Settings
from app.errors import BadInput
from app.platforms import mapped
from app.transforms.translate import translate

NOTE = """\
// Made by `moab transform {platform}` for a webhook of Inngest Cloud; make it anew after an update of Moab.
// Inngest does not check who posts to the webhook: its address is the secret, so show it to nobody but the platform.
"""


def transform_of(platform: str, settings: Settings, given: Mapping[str, str]) -> str:
    """The transform of a platform. `given` are values that the settings do not have, such as bot.username.

    Raises BadInput for a platform that has none, and for a mapping that cannot be translated.
    """
    arguments = _arguments(platform, settings, given)
    runtime = files("app.transforms").joinpath("runtime.js").read_text("utf-8")
    ending = files("app.transforms").joinpath("ending.js").read_text("utf-8")
    return "\n".join([NOTE.format(platform=platform), runtime, translate(platform, arguments), ending])


def _arguments(platform: str, settings: Settings, given: Mapping[str, str]) -> Mapping[str, Any]:
    able = mapped()
    if platform not in able:
        raise BadInput(f"{platform} has no mapping of payloads to events; accepted: {', '.join(able)}.")
    module = importlib.import_module(f"webhooks.{platform}")
    arguments: Mapping[str, Any] = module.mapping_arguments(settings, given)
    return arguments
