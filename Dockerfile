# The workflow with its packages, on CPUs or with SET=gpu on NVIDIA GPUs (docs/how-to/containers.md):
#
#     docker build -t dphrl --build-arg UID="$(id -u)" .
#     docker run --rm -v "$PWD/results:/dphrl/results" dphrl make demo
FROM python:3.11-slim-bookworm
# The C++ compiler is for kernels that PyTorch, Triton and FlashInfer build while they run, git for Snakemake's modules,
# libnuma1 for vLLM on CPUs; tcmalloc is the allocator of jobs.
RUN apt-get update && apt-get install -y --no-install-recommends make g++ git libnuma1 libtcmalloc-minimal4 && rm -rf /var/lib/apt/lists/*
# Files that it writes into a mounted folder belong to UID.
ARG UID=1000
RUN useradd --non-unique --uid "$UID" --create-home --home-dir /dphrl dphrl
USER dphrl
WORKDIR /dphrl
ENV PATH=/dphrl/.venv/bin:$PATH PIP_NO_CACHE_DIR=1
COPY --chown=dphrl . .
ARG SET=cpu
RUN make install SET="$SET"
CMD ["make", "demo"]
