# For a CPU:  docker build -t sarqc .
# For a GPU:  docker build -t sarqc --build-arg DEVICE=cuda .   and docker run --gpus all
# The wheel of PyTorch for CUDA brings its own libraries: one plain Python image is enough for both.
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

# tini: an init. It passes signals on, and reaps the processes that workers leave behind.
# hadolint ignore=DL3008  # Debian keeps one version, in which it mends faults
RUN apt-get update && apt-get install --yes --no-install-recommends tini && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 user
USER user
# Made before it is a volume: a folder that Docker makes belongs to root.
RUN mkdir -p /home/user/state
WORKDIR /home/user/app
ENV PATH=/home/user/.local/bin:$PATH

# The largest layer comes first, and changes only with its version.
ARG DEVICE=cpu
COPY --chown=user requirements-cpu.txt requirements-cuda.txt ./
RUN pip install --no-cache-dir --user --require-hashes --no-deps -r "requirements-$DEVICE.txt" \
    --extra-index-url https://download.pytorch.org/whl/cpu

# All that the extras app, host and eval of the package ask for.
COPY --chown=user requirements.txt .
RUN pip install --no-cache-dir --user --require-hashes --no-deps --no-build-isolation --use-pep517 -r requirements.txt
COPY --chown=user . .
# A pretrained model: without it the app has its own, which are small.
RUN python -m deploy.fetch_models

# Models of the Hub are in the volume too: they outlive the container.
ENV PYTHONUNBUFFERED=1 \
    OMP_WAIT_POLICY=PASSIVE \
    GRADIO_ANALYTICS_ENABLED=False \
    HF_HOME=/home/user/state/hub \
    SARQC_HOST=0.0.0.0 \
    SARQC_PORT=7860 \
    SARQC_STATE_DIR=/home/user/state
EXPOSE 7860
VOLUME /home/user/state
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['SARQC_PORT'] + '/healthz', timeout=4)"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "app.py"]
