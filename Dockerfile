# One image for every component: `gpu-tenure webhook`, `gpu-tenure reaper`, …
# The base is pinned by its exact tag. Whoever builds for production pins the digest that was checked:
#   docker build --build-arg PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:… .
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY requirements/dev.txt requirements/dev.txt
# The build back-end comes from the lock as well, checked by hash, and never reaches the last stage.
RUN python -m venv /tools \
 && /tools/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/dev.txt
COPY pyproject.toml README.md LICENSE ./
COPY policy policy
COPY runtime runtime
COPY webhook webhook
COPY reaper reaper
COPY quota quota
COPY certs certs
COPY cli cli
COPY sandbox sandbox
RUN /tools/bin/pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON_IMAGE} AS install
COPY requirements/run.txt /src/run.txt
COPY --from=wheel /wheels /wheels
# An environment without pip; wheels only, so that nothing is compiled and no compiler is needed.
RUN python -m venv --without-pip /opt/gpu-tenure \
 && pip --python /opt/gpu-tenure/bin/python install --no-cache-dir --disable-pip-version-check \
      --only-binary :all: --require-hashes -r /src/run.txt \
 && pip --python /opt/gpu-tenure/bin/python install --no-cache-dir --disable-pip-version-check --no-deps /wheels/*.whl

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="gpu-tenure" \
      org.opencontainers.image.description="Deadlines, idle terms and reclaim for GPU pods on shared Kubernetes clusters" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=install /opt/gpu-tenure /opt/gpu-tenure
# Bytecode was written at installation: the file system may be read-only, and nothing needs a home folder.
ENV PATH=/opt/gpu-tenure/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/nonexistent
# A number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8443 9443
ENTRYPOINT ["gpu-tenure"]
CMD ["--help"]
