# The operator's image. Any Debian-like base with Python 3.11 or newer, pip and venv will do; both stages use the same.
ARG BASE_IMAGE=python:3.13-slim

FROM ${BASE_IMAGE} AS build
WORKDIR /build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
COPY constraints/build.txt constraints/runtime.txt constraints/
# Everything becomes a wheel here, dependencies from the pinned hashes, and only wheels leave this environment.
RUN python -m venv /tools && /tools/bin/pip install -q --require-hashes -r constraints/build.txt \
 && /tools/bin/pip wheel -q --require-hashes --only-binary :all: -w /wheels -r constraints/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /tools/bin/pip wheel -q --no-deps --no-build-isolation -w /wheels .
# The environment has no pip of its own. Compiled once, by hash: the file system is read-only when it runs.
RUN python -m venv --without-pip /venv \
 && /tools/bin/pip --python /venv/bin/python install -q --no-index --no-deps --no-compile /wheels/*.whl \
 && /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /venv

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="vidra" \
      org.opencontainers.image.description="Brings the artifacts Infrahub renders into Kubernetes and keeps them there" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /venv /venv
# A number, so that runAsNonRoot can be checked without looking into the image.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["python", "-m", "vidra"]
CMD ["run"]
