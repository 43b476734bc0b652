# Skerry as an image: the program and the little that it needs from a system. `docker build -t skerry .` builds it, and
# docs/deploying.md says how it is run. A program of your own has a Dockerfile of its
# own: `skerry init` makes one.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$VERSION" -o /out/skerry ./cmd/skerry && mkdir -p /out/data /out/tmp

FROM scratch
# CA certificates, to connect to mail servers and login providers.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/skerry /skerry
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/tmp /tmp
USER 65532:65532
VOLUME /data
EXPOSE 7001 6380
# Nobody gets in without the password: docker run -v PASSWORD:/run/secrets/password:ro …
ENTRYPOINT ["/skerry"]
CMD ["serve", "--data", "/data", "--http", "0.0.0.0:7001", "--resp", "0.0.0.0:6380", "--password-file", "/run/secrets/password"]
