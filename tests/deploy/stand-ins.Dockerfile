# For play.sh: images of others that docker-compose.yml names, made of Debian's packages, with the
# users, directories and entry points that it counts on; and compose's own parser.
FROM python:3.11-slim-trixie AS debian
# hadolint ignore=DL3008
RUN mkdir /etc/postgresql-common \
    && echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf \
    && apt-get update \
    && apt-get install --no-install-recommends -y docker-compose mosquitto postgresql prometheus wget

FROM debian AS postgres
ENV PATH=/usr/lib/postgresql/17/bin:$PATH
RUN echo "server:x:70:70::/:/bin/sh" >> /etc/passwd \
    && install -d -m 0700 -o 70 -g 70 /var/lib/postgresql/data
COPY postgres.sh /entry.sh
ENTRYPOINT ["sh", "-eu", "/entry.sh"]

FROM debian AS mosquitto
RUN echo "broker:x:1883:1883::/:/bin/sh" >> /etc/passwd \
    && install -d -o 1883 -g 1883 /mosquitto/data /mosquitto/config
ENTRYPOINT []

FROM debian AS prometheus
RUN install -d -o 65534 -g 65534 /prometheus
ENTRYPOINT ["prometheus"]
