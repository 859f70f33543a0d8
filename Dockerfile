# The images of Readstates. Targets: operator, readstates, superdisk, and cassandra for tests and trials.
#
#   docker build --target operator --tag readstates/operator:dev .
#
# compiles in the image, with nothing but docker on the host. `hack/up` compiles on the host instead and
# hands over a folder with the programs, as context with BINARIES=prebuilt; that keeps cargo's cache.
# Only the stages of the wanted target are built (BuildKit).
ARG BASE_IMAGE=debian:bookworm-slim
ARG RUST_IMAGE=rust:1.95-slim-bookworm
ARG BINARIES=compile
ARG PROFILE=release

FROM ${RUST_IMAGE} AS compile
ARG PROFILE
WORKDIR /source
# The operator's allocator is built with make.
RUN apt-get update -q && apt-get install -yq --no-install-recommends make && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cargo build --profile "$PROFILE" --locked --bins --target-dir /target \
 && mkdir -p /bin-out \
 && for program in operator readstates superdisk; do cp "/target/$PROFILE/$program" /bin-out/ || exit 1; done

FROM scratch AS prebuilt
COPY operator readstates superdisk /bin-out/

FROM ${BINARIES} AS binaries

# Non-root with no home and nothing to write to: the root file system may be read-only.
FROM ${BASE_IMAGE} AS runtime
USER 65532:65532

FROM runtime AS operator
COPY --from=binaries /bin-out/operator /usr/local/bin/operator
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/operator"]

FROM runtime AS readstates
COPY --from=binaries /bin-out/readstates /usr/local/bin/readstates
EXPOSE 7400 7401
ENTRYPOINT ["/usr/local/bin/readstates"]

# What a super-disk is made with: the programs that operator/superdisk/src/command.rs names. It has to be root, and
# privileged, to use them.
FROM ${BASE_IMAGE} AS superdisk
RUN apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends mdadm xfsprogs e2fsprogs util-linux \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /usr/share/man/* /usr/share/doc/* \
 && for program in mdadm wipefs mkfs.xfs mkfs.ext4 xfs_growfs resize2fs fsfreeze; do command -v "$program" || exit 1; done
COPY --from=binaries /bin-out/superdisk /usr/local/bin/superdisk
ENTRYPOINT ["/usr/local/bin/superdisk"]

# Apache Cassandra as Maven Central has it, configured by the environment like the official image. Its
# context is a folder with hack/offline/cassandra/ and the jars that its pom.xml names: hack/lib/images.sh.
FROM ${BASE_IMAGE} AS cassandra
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends openjdk-17-jre-headless \
 && apt-get clean && rm -rf /var/lib/apt/lists/* /usr/share/man/* /usr/share/doc/* \
 && groupadd --system --gid 999 cassandra \
 && useradd --system --uid 999 --gid 999 --home-dir /var/lib/cassandra cassandra \
 && install -d -o cassandra -g cassandra /var/lib/cassandra /etc/cassandra
COPY lib/ /opt/cassandra/lib/
COPY java17.options server.options logback.xml /opt/cassandra/
COPY entrypoint /opt/cassandra/
COPY cassandra nodetool /usr/local/bin/
# By the name that the official image has it.
RUN ln -s /opt/cassandra/entrypoint /usr/local/bin/docker-entrypoint.sh
ENV CASSANDRA_CONF=/etc/cassandra
VOLUME /var/lib/cassandra
USER 999:999
EXPOSE 7000 9042
ENTRYPOINT ["/opt/cassandra/entrypoint"]
CMD ["cassandra", "-f"]
