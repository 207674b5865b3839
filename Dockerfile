# The workflow on CPUs, with the commands of README.md:
#
#     docker build -t dphrl .
#     docker run --rm -v "$PWD/results:/dphrl/results" dphrl make demo
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends make g++ git && rm -rf /var/lib/apt/lists/*
WORKDIR /dphrl
COPY . .
RUN make install
CMD ["make", "demo"]
