# The image of the service: no root, no shell needed, and a root file system that may be read-only.
#
#     docker build --tag toolpost .
#     docker run --rm --volume toolpost:/data toolpost keys create --scope admin
#     docker run --publish 8080:8080 --read-only --tmpfs /tmp --volume toolpost:/data toolpost
#
# docker/compose.yaml has it with PostgreSQL, and docker/build-without-daemon builds and tries it where there is no Docker.

ARG BUILD_IMAGE=rust:1.95-slim-bookworm
# Whatever has this libc or a newer one. Tools that are programs, and `bash`, need what they call in the image as well; without
# them gcr.io/distroless/cc-debian12 is enough.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BUILD_IMAGE} AS build
# `dist`, or `release`, which builds in a fraction of the time and runs a little slower.
ARG PROFILE=dist
WORKDIR /src
# Dependencies first, on an empty crate: this layer is made anew only when they change.
COPY Cargo.toml Cargo.lock ./
COPY crates/core/Cargo.toml crates/core/
COPY crates/store/Cargo.toml crates/store/
COPY crates/tool/Cargo.toml crates/tool/
COPY crates/telemetry/Cargo.toml crates/telemetry/
COPY crates/engine/Cargo.toml crates/engine/
COPY crates/worker/Cargo.toml crates/worker/
COPY tests/model/Cargo.toml tests/model/
RUN mkdir -p src benches tests/it tests/model/src crates/core/src crates/store/src crates/tool/src crates/telemetry/src crates/engine/src \
        crates/worker/src \
    && touch src/lib.rs tests/model/src/lib.rs benches/hot_path.rs benches/listing.rs tests/it/main.rs crates/core/src/lib.rs crates/store/src/lib.rs \
        crates/tool/src/lib.rs crates/telemetry/src/lib.rs crates/engine/src/lib.rs crates/worker/src/lib.rs \
    && echo 'fn main() {}' > src/main.rs \
    && cargo build --locked --profile "$PROFILE" --bin toolpost \
    && rm src/lib.rs src/main.rs
COPY build.rs build.rs
COPY console console
COPY migrations migrations
COPY crates/core crates/core
COPY crates/store crates/store
COPY crates/tool crates/tool
COPY crates/telemetry crates/telemetry
COPY crates/engine crates/engine
COPY src src
# What was copied is older than what was made of the empty crate.
RUN touch src/lib.rs src/main.rs crates/*/src/lib.rs \
    && cargo build --locked --profile "$PROFILE" --bin toolpost \
    && install -D "target/$PROFILE/toolpost" /image/toolpost \
    && mkdir /image/data /image/tools

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Toolpost" \
    org.opencontainers.image.description="Runs the tool calls of LLM agents" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.licenses="MIT OR Apache-2.0"
# There is no RUN here, so that a base without a shell will do.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /image/toolpost /usr/local/bin/toolpost
COPY --from=build --chown=65532:65532 /image/data /data
COPY --from=build --chown=65532:65532 /image/tools /tools
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/toolpost/
USER 65532:65532
WORKDIR /data
# Without --database-url the database is /data/toolpost/toolpost.db. /tmp is written to if it can be.
ENV HOME=/data XDG_DATA_HOME=/data TOOLPOST_TOOLS=/tools
VOLUME ["/data", "/tools"]
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/local/bin/toolpost", "healthcheck", "--url", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["/usr/local/bin/toolpost"]
# Everybody reaches this address, so `serve` refuses to start before there is a key: see above.
CMD ["serve", "--listen", "0.0.0.0:8080"]
