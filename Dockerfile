# docker build -t safexp .
# docker run --rm -v "$PWD:/data" safexp doctor /data/log.csv --within current:-100:100
FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/safexp
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu ".[all]"
RUN useradd --create-home safexp
USER safexp
WORKDIR /data
ENV OMP_NUM_THREADS=1
ENTRYPOINT ["safexp"]
CMD ["--help"]
