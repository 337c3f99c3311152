# The torch wheel brings its own CUDA libraries: a plain Python image is enough, also for `docker run --gpus all`.
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 user
USER user
WORKDIR /home/user/app

COPY --chown=user requirements.txt .
RUN pip install --no-cache-dir --user -r requirements.txt
COPY --chown=user . .

ENV PATH=/home/user/.local/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OMP_WAIT_POLICY=PASSIVE \
    GRADIO_ANALYTICS_ENABLED=False \
    SARQC_HOST=0.0.0.0 \
    SARQC_PORT=7860 \
    SARQC_STATE_DIR=/home/user/state
# humaneval needs user namespaces, which Docker's usual profile forbids: its plan says so. See docs/algorithms.md.
EXPOSE 7860
VOLUME /home/user/state
CMD ["python", "app.py"]
