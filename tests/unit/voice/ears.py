"""Speech recognition that hears what a test says it hears."""

from pathlib import Path
from typing import Any

from app.speech import Progress, Speech, Transcript


class Ears(Speech):
    """Hears its answers one after the other (the last one again and again); `heard` names the files, in order."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.heard: list[str] = []
        self.languages: list[str] = []

    async def transcribe(self, path: Path, *, language: str = "", progress: Progress | None = None) -> Transcript:
        self.heard.append(path.name)
        self.languages.append(language)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if progress is not None:
            await progress(6.0, 12.0)
        if callable(answer):
            await answer()
            return words("too late")
        return answer if isinstance(answer, Transcript) else words(answer)


def words(text: str, **changes: Any) -> Transcript:
    fields: dict[str, Any] = {"text": text, "language": "en", "seconds": 12.0, "confidence": 0.8}
    return Transcript(**fields | changes)
