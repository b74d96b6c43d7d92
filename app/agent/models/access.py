"""What a model's provider wants before it is asked at all, and is not there: in words for who can mend it. Pure."""

from types import ModuleType

from app.sentences import Sentence

NO_KEY = Sentence("{model} cannot be asked: {variable} is not set where I run.")
NO_PROVIDER = Sentence(
    "{model} is of no provider that I know. Accepted: provider/name, such as openai/gpt-5.4 or ollama/llama3.2."
)
NO_OLLAMA = Sentence("Ollama does not answer at {address}. `ollama serve` starts it.")

OLLAMA = ("ollama/", "ollama_chat/")
OLLAMA_ADDRESS = "http://localhost:11434"


def lacking(litellm: ModuleType, model: str) -> str:
    """Why `model` cannot be asked as things are set; "" if nothing is known to be missing.

    Only keys are looked for: providers that are reached otherwise have more than one way.
    """
    try:
        litellm.get_llm_provider(model)
    except litellm.BadRequestError:
        return NO_PROVIDER.format(model=model)
    missing = litellm.validate_environment(model)["missing_keys"]
    keys = [name for name in missing if name.endswith("_API_KEY")]
    return NO_KEY.format(model=model, variable=" or ".join(keys)) if keys else ""


def unreached(model: str, address: str) -> str:
    """What to do about a model at `address` ("": where its provider always is) that does not answer; "" if unknown."""
    return NO_OLLAMA.format(address=address or OLLAMA_ADDRESS) if model.startswith(OLLAMA) else ""
