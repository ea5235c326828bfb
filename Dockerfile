# The official Redis image with the module loaded, or the Valkey one:
#
#   docker build -t redis-limiter .
#   docker build -t valkey-limiter --build-arg SERVER_IMAGE=valkey/valkey:9-bookworm .
#
# SERVER_IMAGE may be any Debian image of Redis (7.0 or newer) or Valkey that starts through
# docker-entrypoint.sh, as long as its Debian is not older than that of BUILD_IMAGE.
ARG BUILD_IMAGE=rust:1-bookworm
ARG SERVER_IMAGE=redis:8-bookworm

FROM ${BUILD_IMAGE} AS build
# Lets a cleanup find what this stage leaves behind.
LABEL redis-limiter.stage=build
# The server's C API is translated at build time.
RUN apt-get update \
    && apt-get install -y --no-install-recommends libclang-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package redis-limiter \
    && mkdir /out \
    && strip --strip-unneeded -o /out/libredis_limiter.so target/release/libredis_limiter.so \
    && chmod 755 /out/libredis_limiter.so \
    && scripts/third-party-licences >/out/THIRD-PARTY-LICENCES

FROM ${SERVER_IMAGE}
COPY --from=build /out/libredis_limiter.so /usr/lib/redis/modules/libredis_limiter.so
COPY --from=build /out/THIRD-PARTY-LICENCES /usr/share/doc/redis-limiter/
COPY LICENSE-APACHE LICENSE-MIT redis.conf.example /usr/share/doc/redis-limiter/
COPY docker/limiter-entrypoint docker/limiter-health /usr/local/bin/
# Without arguments it starts the server, with arguments it does what the base image does. That also
# makes the server run as the base's own user, not as root.
ENTRYPOINT ["limiter-entrypoint"]
# Loading a large AOF may take its time; until it is done the server answers LOADING.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 CMD ["limiter-health"]
