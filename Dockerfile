# The workflow and the command `bjmd`, with pinned versions: docs/deploy.md says how to use it.
FROM python:3.11-slim
# g++ for ADVI, git for workflows that are used as modules
RUN apt-get update && apt-get install --yes --no-install-recommends g++ git && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/bjmd
COPY envs/requirements.txt envs/
RUN pip install --no-cache-dir --require-hashes --requirement envs/requirements.txt
COPY . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation .
WORKDIR /work
CMD ["bjmd", "--help"]
