# What the entry point of the image postgres does with its command and variables, for Debian's server.
shift # `postgres`
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" --auth=scram-sha-256 \
    --encoding=UTF8 --locale=C > /tmp/initdb.log
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  pg_ctl -D "$PGDATA" -w -o "-c listen_addresses= -c unix_socket_directories=/tmp" start \
    > /tmp/first.log
  export PGPASSWORD="$(cat "$POSTGRES_PASSWORD_FILE")" PGHOST=/tmp
  createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
  for file in /docker-entrypoint-initdb.d/*.sql; do
    psql -q -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f "$file"
  done
  pg_ctl -D "$PGDATA" -w stop > /tmp/last.log
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql "$@"
