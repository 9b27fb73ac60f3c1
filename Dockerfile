# The exporter in its virtual environment, on linux/amd64 and linux/arm64: docs/installation.md.
# The digest is that of an index of both; a change needs no other line.
ARG BASE=docker.io/library/python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
ENV UV_PROJECT_ENVIRONMENT=/opt/mgpu-exporter \
    UV_PYTHON=/usr/local/bin/python \
    UV_PYTHON_DOWNLOADS=never \
    UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_NO_CACHE=1 \
    PYC_INVALIDATION_MODE=UNCHECKED_HASH
WORKDIR /src
COPY tools/image/tools.txt tools/image/
RUN python -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r tools/image/tools.txt
# What is locked comes before the code: a change of the code leaves this layer as it was.
COPY pyproject.toml uv.lock ./
# A third of it all is the kubernetes package's second client, which nothing here imports.
# Closed days need pyarrow, 150 MB: docker build --build-arg WITHOUT= .
ARG WITHOUT=--no-extra=parquet
RUN /opt/tools/bin/uv sync --locked --no-dev --all-extras ${WITHOUT} --no-install-project --no-build \
 && rm -r "$(/opt/mgpu-exporter/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/kubernetes/aio"
COPY LICENSE ./
COPY exporter exporter
COPY docs/runbooks docs/runbooks
RUN /opt/tools/bin/hatchling build --target wheel --directory dist \
 && /opt/tools/bin/uv pip install --python /opt/mgpu-exporter --no-deps dist/*.whl

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION
LABEL org.opencontainers.image.title="mgpu-exporter" \
      org.opencontainers.image.description="Prometheus exporter of GPU use per container and pod on shared GPUs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/mgpu-exporter/mgpu-exporter" \
      org.opencontainers.image.documentation="https://github.com/mgpu-exporter/mgpu-exporter/tree/main/docs"
ENV PATH=/opt/mgpu-exporter/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/mgpu-exporter /opt/mgpu-exporter
# Nobody else's: processes of one user may read and signal each other (docs/installation.md).
USER 61045:61045
EXPOSE 10045
# No HEALTHCHECK: Kubernetes ignores it and asks /-/healthy and /-/ready itself.
ENTRYPOINT ["mgpu-exporter"]
