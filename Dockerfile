# An image with the `proctor` command and its Python package. Build the wheel first: .ci/release
#
#   docker build -t proctor .
#   docker run --rm --privileged -v "$PWD/runs:/runs" proctor run demo --out /runs/demo
#
# Native sandboxes need namespaces and control groups: hence --privileged.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY dist/proctor_bench-*.whl /tmp/wheel/
RUN python3 -m venv /opt/proctor \
    && /opt/proctor/bin/pip install --no-cache-dir --no-index /tmp/wheel/*.whl \
    && ln -s /opt/proctor/bin/proctor /usr/local/bin/proctor \
    && rm -rf /tmp/wheel
# Sandboxes are overlays, and an overlay cannot lie on the container's own overlay. To keep environments between runs, name
# the volume: -v proctor-cache:/cache
ENV PROCTOR_CACHE=/cache
VOLUME /cache
ENTRYPOINT ["proctor"]
