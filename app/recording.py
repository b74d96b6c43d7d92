"""A recording as samples, piece by piece: what decodes audio, without any program on the machine and without trust.

Only the worker of `app/speech.py` calls this: the libraries behind it are native code that reads what strangers sent.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.errors import BadInput

RATE = 16_000
OPUS_RATE, OPUS_BITS_S = 48_000, 32_000
PIECE_S, CUT_WITHIN_S = 60.0, 15.0
"""How long a piece of a long recording is, and in how much of its end the quietest moment is looked for."""
MAX_RECORDING_S = 4 * 3600.0
CONTAINERS = "aac,aiff,amr,asf,au,caf,flac,matroska,mov,mp3,ogg,wav,wv,webm"
"""What FFmpeg's libraries may take a file for: no playlists, which name other files and addresses to be read."""


def pieces_of(path: Path, piece_s: float = PIECE_S) -> Iterator[tuple[Any, float | None, bool]]:
    """(samples, length of the recording in seconds if its file says so, whether this is the last piece) of a recording.

    Samples are float32 of one channel at 16 kHz. Never more than a piece is in memory; pieces are cut where it is
    quietest. Raises BadInput for what is no recording.
    """
    import numpy as np

    kept, waiting, heard = list[Any](), 0, 0
    with _opened(path) as container:
        length = round(container.duration / 1_000_000, 2) if container.duration else None
        for block in _blocks(container):
            kept.append(np.asarray(block, np.float32) / 32768.0)
            waiting += len(block)
            heard += len(block)
            if heard > MAX_RECORDING_S * RATE:
                raise BadInput(f"{path.name} is longer than {MAX_RECORDING_S / 3600:.0f} hours; cut it into parts.")
            while waiting > piece_s * RATE:
                samples = np.concatenate(kept)
                cut = _quietest(samples[: int(piece_s * RATE)], min(CUT_WITHIN_S, piece_s / 2))
                yield samples[:cut], length, False
                kept, waiting = [samples[cut:]], len(samples) - cut
    if heard == 0:
        raise BadInput(f"{path.name} holds no sound.")
    yield np.concatenate(kept), length, True


def _quietest(samples: Any, within_s: float) -> int:
    """Where to cut: the middle of the quietest fifth of a second in the last `within_s` seconds of `samples`."""
    import numpy as np

    width = RATE // 5
    tail = samples[-int(within_s * RATE) :]
    count = len(tail) // width
    power = np.square(tail[: count * width].reshape(count, width)).mean(axis=1)
    return len(samples) - len(tail) + int(power.argmin()) * width + width // 2


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The recording as PyAV's container, whose durations are in microseconds; raises BadInput for anything else."""
    import av

    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"}
    try:
        with path.open("rb") as file, av.open(file, options=options, metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise BadInput(f"{path.name} holds no sound.")
            yield container
    except (av.error.FFmpegError, OSError) as error:
        raise BadInput(f"{path.name} is no recording that can be read ({error.strerror}).") from error


def _blocks(container: Any) -> Iterator[Any]:
    """The sound as blocks of 16-bit samples; packets that cannot be read are left out."""
    import av

    resampler, form = None, None
    packets = container.demux(audio=0)
    while True:
        try:
            frames = next(packets).decode()
        except av.error.InvalidDataError:
            continue
        except (StopIteration, EOFError):
            break
        for frame in frames:
            frame.pts = None  # a gap in the time stamps is no reason to stop
            if resampler is None or form != (form := (frame.format.name, frame.layout.name, frame.sample_rate)):
                resampler = av.AudioResampler(format="s16", layout="mono", rate=RATE)
            yield from (each.to_ndarray()[0] for each in resampler.resample(frame))
    if resampler is not None:
        yield from (each.to_ndarray()[0] for each in resampler.resample(None))


def pack(wav: Path, to: Path) -> None:
    """Write a WAV file of our own making as a voice message: OGG with Opus, one channel."""
    import av

    with av.open(str(wav)) as source, av.open(str(to), "w", format="ogg") as target:
        stream = target.add_stream("libopus", rate=OPUS_RATE)
        stream.layout, stream.bit_rate = "mono", OPUS_BITS_S
        resampler = av.AudioResampler(format="s16", layout="mono", rate=OPUS_RATE)
        for frame in (*source.decode(audio=0), None):
            for each in resampler.resample(frame):
                target.mux(stream.encode(each))
        target.mux(stream.encode(None))
