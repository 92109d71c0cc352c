#!/usr/bin/env bash
# docker-compose.yml in a real engine: podman with crun, and podman-compose. `make play`, as root.
#
#   play.sh [DIRECTORY]
#
# Builds the images, then plays what an operator does with them; ends at the first thing that is not
# so. A DIRECTORY is kept, and its images are used again; without one nothing is left behind but
# Debian's packages. The engine has its own settings, store and networks, and all of it runs in one
# mount namespace. The copy of the compose file lacks limits only (`mem_limit`, `pids_limit`,
# `ulimits`), which need a machine with cgroups for root to give away.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
bin=${VENV:-$root/.venv}/bin
bin=$(realpath "$bin")
export TACIT_LOG_LEVEL=

if [ "$(id -u)" != 0 ]; then
  echo "play: it needs root; nothing was played"
  exit 0
fi
if [ -z "${PLAY_NAMESPACE:-}" ]; then
  PLAY_NAMESPACE=own exec unshare --mount --propagation private "$0" "$@"
fi

began=$SECONDS
step() { printf '%4d s  %s\n' $((SECONDS - began)) "$*"; }
fail() {
  echo "play: $*" >&2
  exit 1
}
# COMMAND | has TEXT: whether it prints the text. `grep -q` would end the command before its end.
has() {
  local printed
  printed=$(cat)
  [[ $printed == *"$1"* ]]
}
# until_true SECONDS WHAT COMMAND...: waits until the command succeeds.
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "$what"
    sleep 0.5
  done
}

# --- the engine -----------------------------------------------------------------------------------

missing=()
for package in podman:podman crun:crun catatonit:catatonit iptables:iptables mmdebstrap:mmdebstrap \
  netavark:/usr/lib/podman/netavark aardvark-dns:/usr/lib/podman/aardvark-dns; do
  command -v "${package#*:}" >/dev/null || missing+=("${package%%:*}")
done
if [ ${#missing[@]} != 0 ]; then
  step "installs ${missing[*]}"
  apt-get update -q >/dev/null
  apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
  umount -R /sys/fs/cgroup 2>/dev/null || :
  mount -t cgroup2 none /sys/fs/cgroup
fi
for directory in /run/containers /run/libpod /dev/shm; do
  mkdir -p $directory
  mount -t tmpfs none $directory
done

if [ $# = 0 ]; then
  work=$(mktemp -d /var/tmp/play.XXXXXX)
else
  mkdir -p "$1"
  work=$(realpath "$1")
fi
project=$work/project
rm -rf "$project" "$work/compose.log" "$work/sample" "$work/out"
mkdir "$project"
cat >"$work/containers.conf" <<END
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
network_backend = "netavark"
network_config_dir = "$work/networks"
END
# Layers by overlay where the kernel can put them there.
driver=vfs
mkdir -p "$work/try/"{lower,upper,work,merged}
if mount -t overlay -o "lowerdir=$work/try/lower,upperdir=$work/try/upper,workdir=$work/try/work" \
  overlay "$work/try/merged" 2>/dev/null; then
  umount "$work/try/merged"
  driver=overlay
fi
rm -rf "$work/try"
printf '[storage]\ndriver = "%s"\ngraphroot = "%s/store"\nrunroot = "%s/run"\n' \
  $driver "$work" "$work" >"$work/storage.conf"
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
export BUILDAH_ISOLATION=chroot

# Instead of systemd's timers, of which podman makes use for health checks.
check_health() {
  local name
  while :; do
    for name in $(podman ps -q --filter health=starting; podman ps -q --filter health=unhealthy); do
      podman healthcheck run "$name" || :
    done
    sleep 1
  done >/dev/null 2>&1
}

compose() { (cd "$project" && "$bin/podman-compose" --in-pod false "$@" >>"$work/compose.log" 2>&1); }

checker=
clean() {
  local code=$?
  trap - EXIT
  if [ $code != 0 ]; then
    tail -n 40 "$work/compose.log" 2>/dev/null || :
    podman ps --all || :
    for name in $(podman ps --all --format '{{.Names}}'); do
      echo "--- $name"
      podman logs --tail 8 "$name" 2>&1 || :
    done
  fi >&2
  [ -z "$checker" ] || kill "$checker" 2>/dev/null || :
  podman rm --all --force --depend --time 1 >/dev/null 2>&1 || :
  podman volume rm --all --force >/dev/null 2>&1 || :
  podman network prune --force >/dev/null 2>&1 || :
  if [ $# = 0 ]; then
    umount -R "$work/store/overlay" 2>/dev/null || :
    rm -rf "$work"
  fi
  exit $code
}
trap 'clean "$@"' EXIT

podman rm --all --force --depend --time 1 >/dev/null
podman volume rm --all --force >/dev/null

# --- the images -----------------------------------------------------------------------------------

# The files of this checkout, as a clone has them.
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar -c --null -T - --ignore-failed-read) |
  tar -x -C "$project"
sed -i -e '/^ *mem_limit:/d' -e '/^ *pids_limit:/d' -e '/^ *ulimits:/,+1d' "$project/docker-compose.yml"

if ! podman image exists localhost/python:3.11-slim-trixie; then
  step "makes the base"
  (cd "$root" && "$bin/python" -m tests.deploy.images "$work") >"$work/options"
  podman import --quiet --change ENV=PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
    "$work/base.tar" localhost/python:3.11-slim-trixie >/dev/null
  rm "$work/base.tar"
fi
mapfile -t options <"$work/options"
build() {
  (cd "$project" && python3 deploy/build.py --engine podman --pip-settings "$work/pip.conf" \
    --option=--pull=never --option=--layers "${options[@]}" "$@") >"$work/build.log" 2>&1 ||
    fail "the images: $(tail -n 20 "$work/build.log")"
}
step "builds the images"
build
podman images --format '{{.Repository}}:{{.Tag}} {{.Size}}' | grep /tacit/

# --- the first start ------------------------------------------------------------------------------

services=(coordinator aggregator-a aggregator-b aggregator-c curator)
of() { echo "tacit_$1_1"; }
state() { podman inspect --format "{{.State.$2}}" "$(of "$1")"; }
healthy() { [ "$(state "$1" Health.Status)" = healthy ]; }
ended() { [ "$(state "$1" Status)" = exited ]; }
all_healthy() {
  local name
  [ $# != 0 ] || set -- "${services[@]}"
  for name; do
    until_true 180 "$name is not healthy" healthy "$name"
  done
}

(cd "$project" && "$bin/tacit" config compose >/dev/null)
for name in COORDINATOR AGGREGATOR_A AGGREGATOR_B AGGREGATOR_C CURATOR MQTT; do
  read -r port
  sed -i "s/^${name}_PORT=.*/${name}_PORT=$port/" "$project/.env"
done < <(cd "$root" && "$bin/python" -c 'from cli.services.deployment import free_ports as f; print(*f(6), sep="\n")')
port_of() { sed -n "s/^$1_PORT=//p" "$project/.env"; }
tacit() {
  (cd "$work" && TACIT_URL=http://127.0.0.1:$(port_of COORDINATOR) \
    TACIT_TOKEN=$(cat "$project/deploy/secrets/coordinator_token") "$bin/tacit" "$@")
}
json() { "$bin/python" -c "import json, sys; found = json.load(sys.stdin); print($1)"; }

check_health &
checker=$!
step "starts the default services: make compose-up"
# The environment is this checkout's, and ready: make would install the copy in it.
compose_up() {
  make -C "$project" --no-print-directory --assume-old="${bin%/bin}/.ready" --assume-old="${bin%/bin}/.services" compose-up VENV="${bin%/bin}" \
    COMPOSE="$bin/podman-compose --in-pod false" >"$work/compose.log" 2>&1
}
compose_up || fail "make compose-up"
[ "$(state pairing ExitCode)" = 0 ] || fail "pairing failed"
link=$(tail -n 1 "$work/compose.log")
step "  $link"
origin=${link%/console/*}
curl -sS --fail --location --cookie-jar "$work/cookies" --header "Origin: $origin" --data-urlencode "code=${link#*#}" \
  "${link%#*}" | has "First steps" || fail "the link does not sign in"
all_healthy
for name in "${services[@]}"; do
  inside=$(podman exec "$(of "$name")" sh -c 'id -u; grep -E "CapBnd|NoNewPrivs" /proc/1/status; touch /opt/tacit/app/file 2>&1 || :')
  [[ $inside == 10001*CapBnd:?0000000000000000*NoNewPrivs:?1*"Read-only file system"* ]] ||
    fail "$name is not as hardened as the file says: $inside"
done

# `up demo` would start what it depends on again, in an order that podman 4.3 refuses.
demo() {
  (cd "$project" && "$bin/podman-compose" --in-pod false --profile demo run --rm --no-deps -T demo) \
    >"$work/demo.log" 2>>"$work/compose.log" || fail "the demo failed: $(cat "$work/demo.log")"
  tr -s '\n ' ' ' <"$work/demo.log" | has "they add up to the answer" || fail "the demo found something else"
}
step "runs the demo"
demo

# What was released so far, with each result.
results() {
  local id
  for id in $(tacit round list --json | json '*sorted(item["id"] for item in found if item["state"] == "released")'); do
    echo "$id $(tacit round result "$id" --json | json 'found["result"]')"
  done
}
before=$(results)
[ -n "$before" ] || fail "no round was released"

# --- kills ----------------------------------------------------------------------------------------

cat >"$work/query.json" <<'END'
{"name": "play", "function": "sum", "unit": "kWh", "bounds": ["0", "2"], "max_readings": 4, "resolution": "0.001",
 "privacy_unit": "curator", "sharing": "additive", "n_max": 100000, "deadline_s": 240, "min_participants": 900,
 "aggregators": 3, "collusion": {"curators": 0, "aggregators": 2}, "mechanism": "distributed",
 "epsilon": "0.1", "layer": "aggregator"}
END
restarted() {
  local started
  started=$(state "$1" StartedAt)
  [ "$started" != "$2" ] && [ "$(state "$1" Status)" = running ]
}
step "kills every service during a round"
query=$(tacit query create query.json --json | json 'found["id"]')
round=$(tacit round open "$query" --from 2025-10-27T10:00:00Z --to 2025-10-27T11:00:00Z --json | json 'found["id"]')
for name in "${services[@]}"; do
  was=$(state "$name" StartedAt)
  kill -9 "$(state "$name" Pid)"
  until_true 90 "$name was not started again" restarted "$name" "$was"
done
all_healthy
tacit round watch "$round" --json >"$work/watched.json" || fail "the round did not end well: $(cat "$work/watched.json")"
[[ $(results) == *"$round"* ]] || fail "the round was not released"
before=$(results)
step "  released: $(tacit round result "$round" --json | json 'found["participants"]') curators"

# --- restart, backup, restore ---------------------------------------------------------------------

step "restarts all"
compose restart "${services[@]}"
all_healthy
[ "$(results)" = "$before" ] || fail "results changed with a restart"

step "backs up"
mkdir -m 777 "$project/backups"
"$bin/tacit" recipient-key "$project/backups/backup.key" >"$work/backup.pub"
chmod 444 "$project/backups/backup.key"
beside() { # SERVICE COMMAND...: the command line beside a service's volume, as docs/how-to/backup.md has it
  local name=$1
  shift
  podman run --rm --user 10001:10001 --volume "tacit_$name:/var/lib/tacit" \
    --volume "$project/backups:/backups" --env "TACIT_AGGREGATOR_ID=$name" --env TACIT_DEPLOYMENT=tacit \
    tacit/tools:0.1.0 python -m cli.main "$@"
}
for name in "${services[@]}"; do
  beside "$name" backup "${name%-?}" --out "/backups/$name" --recipient "$(cat "$work/backup.pub")" >/dev/null
  beside "$name" restore "${name%-?}" "/backups/$name" --key /backups/backup.key --check >/dev/null
done
step "restores the coordinator"
compose stop coordinator
beside coordinator restore coordinator /backups/coordinator --key /backups/backup.key --replace >/dev/null
compose start coordinator
all_healthy
[ "$(results)" = "$before" ] || fail "results changed with a restore"

# --- workers --------------------------------------------------------------------------------------

step "runs a job on the workers of the profile scale"
sed -i 's,^TACIT_DASK_SCHEDULER=.*,TACIT_DASK_SCHEDULER=tcp://scheduler:8786,' "$project/.env"
compose --profile scale up --detach scheduler worker coordinator
all_healthy scheduler coordinator
tacit dataset sample privacy-check --out "$work/sample" >/dev/null
echo '{"qid": ["job", "sex", "age"], "sensitive": ["disease"]}' >"$work/parameters.json"
tacit job run privacy-check --dataset "$work/sample/table-2.1.csv" --params "$work/parameters.json" \
  --out "$work/out" >/dev/null || fail "the job failed"
podman logs "$(of scheduler)" 2>&1 | has "Register worker" || fail "the scheduler saw no worker"

# --- upgrade --------------------------------------------------------------------------------------

step "builds a second version"
sed -i 's/0\.1\.0/0.1.1/' "$project/tacit/version.py"
build --version 0.1.1
sed -i 's/^TACIT_VERSION=.*/TACIT_VERSION=0.1.1/' "$project/.env"
step "upgrades"
compose up --detach --no-deps aggregator-a aggregator-b aggregator-c
all_healthy aggregator-a aggregator-b aggregator-c
compose up --detach --no-deps coordinator
compose up --detach --no-deps curator
all_healthy
for name in "${services[@]}"; do
  [[ $(podman inspect --format '{{.ImageName}}' "$(of "$name")") == *:0.1.1 ]] || fail "$name runs its old image"
done
[ "$(results)" = "$before" ] || fail "results changed with an upgrade"

# --- the end --------------------------------------------------------------------------------------

step "stops all"
at=$SECONDS
compose --profile scale stop
[ $((SECONDS - at)) -le 45 ] || fail "it took $((SECONDS - at)) s to stop, longer than the grace period"
# 143: a service that has ended in order ends by the signal that told it to; 137: it was killed.
for name in "${services[@]}"; do
  [[ $(state "$name" ExitCode) =~ ^(0|143)$ ]] || fail "$name ended with $(state "$name" ExitCode)"
done
compose --profile scale down
[ -z "$(podman ps --all --quiet)" ] || fail "containers are left"
step "starts again on the same volumes"
compose up --detach
all_healthy
[ "$(results)" = "$before" ] || fail "results changed with down and up"
compose --profile scale down --volumes

# --- images of others -----------------------------------------------------------------------------

step "builds stand-ins for postgres, mosquitto and prometheus of Debian's packages"
for image in postgres:18-alpine eclipse-mosquitto:2 prom/prometheus:v3.5.0 compose:parser; do
  target=${image#*/}
  target=${target#eclipse-}
  target=${target%:*}
  (cd "$root" && podman build --pull=never --layers --format docker --file tests/deploy/stand-ins.Dockerfile \
    --target "${target/compose/debian}" --tag "$image" tests/deploy) >"$work/build.log" 2>&1 || fail "the stand-ins: $(tail -n 20 "$work/build.log")"
done
step "reads the compose files with compose's own parser"
for file in docker-compose.yml deploy/aggregator.compose.yml; do
  podman run --rm --volume "$root:/files:ro" --volume "$project/.env:/.env:ro" --volume "$project/deploy/secrets:/secrets:ro" \
    --env COMPOSE_PROFILES=demo,postgres,mqtt,scale,observability --env AGGREGATOR_ID=a --env AGGREGATOR_OPERATOR=a \
    --env AGGREGATOR_URL=https://a compose:parser docker-compose --env-file /.env --file "/files/$file" config --quiet ||
    fail "compose does not take $file"
done
step "runs the demo on postgres, with the broker and prometheus"
sed -i -e 's,^TACIT_DATABASE_URL_FILE=.*,TACIT_DATABASE_URL_FILE=/run/secrets/database_url,' \
  -e 's,^TACIT_MQTT_HOST=.*,TACIT_MQTT_HOST=mosquitto,' -e 's,^TACIT_DASK_SCHEDULER=.*,TACIT_DASK_SCHEDULER=,' "$project/.env"
compose --profile postgres --profile mqtt --profile observability up --detach postgres mosquitto prometheus "${services[@]}" pairing
all_healthy postgres mosquitto prometheus
all_healthy
until_true 300 "pairing has not ended" ended pairing
demo
for name in "${services[@]}"; do
  [ -z "$(podman exec "$(of "$name")" find /var/lib/tacit -name '*.db')" ] || fail "$name wrote to SQLite"
done
podman exec "$(of curator)" python -c \
  'import urllib.request as r; print(r.urlopen("http://127.0.0.1:8400/metrics").read().decode())' |
  has "tacit_curator_mqtt_connected 1.0" || fail "the curator has no connection to the broker"
scraped() {
  podman exec "$(of prometheus)" wget -qO- "http://127.0.0.1:9090/api/v1/query?query=sum(up)" | has '"5"]'
}
until_true 90 "prometheus does not reach all five services" scraped
podman exec "$(of prometheus)" wget -qO- http://127.0.0.1:9090/api/v1/rules | has TacitAggregatorAway || fail "there are no alerts"
step "sees a killed aggregator"
podman stop "$(of aggregator-b)" >/dev/null
fires() {
  podman exec "$(of prometheus)" wget -qO- http://127.0.0.1:9090/api/v1/alerts |
    "$bin/python" -c 'import json, sys; sys.exit(not any(each["labels"]["alertname"] == "TacitAggregatorAway" and each["state"] == "firing" for each in json.load(sys.stdin)["data"]["alerts"]))'
}
at=$SECONDS
until_true 150 "the alert does not fire" fires
step "  alert after $((SECONDS - at)) s"
step "played; not tried: grafana, and limits of memory, processes and core files"
