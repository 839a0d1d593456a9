# Runs each command that makes files, and lists what there is before and after. Beside it nothing can be written: a command that makes
# something elsewhere fails. Everything ends with this shell, which is the first process of its namespace.
#
# Names in capitals are those of the table in docs/operations.md. Each command has a folder, which is named after it.
set -eu
fulmar=$0 owner=$1
umask 022
export HOME=/nowhere
unset TMPDIR XDG_RUNTIME_DIR FULMAR_DATABASES FULMAR_SERVERS FULMAR_HISTORY
mount -t tmpfs -o mode=755 none /run
mount -o remount,bind,ro /
ip link set lo up
mkdir -p /run/script /run/stage
cd /run/stage
mkdir agree backup demo demo/TMPDIR discover export fence import lock net restore serve.1 serve.2 serve.3 serve.alone \
  serve.locks.1 serve.locks.2 serve.locks.3 sql.file sql.held sql.reader sql.reader/TMPDIR sql.shared sql.shell sql.shell/HOME \
  status switch
if [ "$owner" != 0 ]; then
  mkdir import/DATABASE restore/DATABASE serve.alone/DATA serve.1/DATA serve.locks.1/DATA sql.held/DATABASE sql.shared/DATABASE \
    switch/DIRECTORY
  chown -R "$owner:$owner" .
fi

# Type, mode, owner, path.
list() {
  find /run -ignore_readdir_race -path /run/script -prune -o -printf '%y %m %U %p\n'
}
await() {
  tries=0
  until eval "$1"; do
    tries=$((tries + 1))
    [ $tries -lt 3000 ] || { echo "it never came to this: $1" >&2; exit 1; }
    sleep 0.02
  done
}
says() {
  await "grep -q '$2' /run/script/$1"
}
# A shell that stays, with the database open.
stay() {
  { echo 'SELECT 1 FROM t;'; exec sleep infinity; } | "$fulmar" sql DATABASE >"/run/script/$1" &
}
servers=
serve() {
  cd "/run/stage/serve.$1"
  port=$2
  shift 2
  "$fulmar" serve --data DATA --listen "127.0.0.1:$port" "$@" >"/run/script/$port" &
  servers="$servers $!"
}
fill='CREATE TABLE t(a); INSERT INTO t VALUES (1)'

echo begun
list
echo before

cd /run/stage/sql.held
"$fulmar" sql DATABASE "$fill"
cp -a DATABASE /run/script/SOURCE
cp -a DATABASE /run/script/DATABASE
stay held
await '[ -S DATABASE/holder ]'

cd ../sql.shared
"$fulmar" sql DATABASE "$fill"
stay first
await '[ -S DATABASE/holder ]'
stay second
await '[ -S DATABASE/server ]'

cd /run/script
mount --bind DATABASE DATABASE
mount -o remount,bind,ro DATABASE
(export TMPDIR=/run/stage/sql.reader/TMPDIR; stay reader)
says reader 1

cd /run/stage/sql.file
FULMAR_DATABASES='*.db' "$fulmar" sql "file:$PWD/NAME.db" "$fill"

cd ../sql.shell
(export HOME="$PWD/HOME"; echo 'SELECT 1;' | script -qec "'$fulmar' sql :memory:" /dev/null >/dev/null)
"$fulmar" sql :memory: '.once OUTPUT' 'SELECT 1' '.backup COPY'

cd ../export
"$fulmar" export /run/script/SOURCE FILE
cd ../backup
"$fulmar" backup /run/script/SOURCE BACKUP
cd ../import
"$fulmar" import ../export/FILE DATABASE
cd ../restore
"$fulmar" restore ../backup/BACKUP DATABASE

echo 'replicas = 3' >/run/script/node.toml
printf 'service = "locks"\nmembers = ["127.0.0.1:7501", "127.0.0.1:7502", "127.0.0.1:7503"]\n' >/run/script/locks.toml
serve alone 7400 --found
serve 1 7401 --found --config /run/script/node.toml
says 7401 serving
serve 2 7402 --join 127.0.0.1:7401
serve 3 7403 --join 127.0.0.1:7401
for replica in 1 2 3; do
  serve locks.$replica 750$replica --found --config /run/script/locks.toml
done
for port in 7400 7402 7403 7501 7502 7503; do
  says $port serving
done
cd ../status
await '"$fulmar" status 127.0.0.1:7401 >/run/script/status 2>&1 && [ $(grep -c "127.0.0.1:740[123]" /run/script/status) -ge 3 ]'
"$fulmar" sql fulmar://127.0.0.1:7400/DATABASE "$fill"
"$fulmar" sql fulmar://127.0.0.1:7401/DATABASE "$fill"
cd ../lock
"$fulmar" lock 127.0.0.1:7501,127.0.0.1:7502,127.0.0.1:7503 eggs -- "$fulmar" fence ../fence/FENCE -- true
cd ../discover
"$fulmar" discover --join 127.0.0.1:7401

cd ../agree
key=$("$fulmar" agree keygen KEY)
echo 'members = ["127.0.0.1:7401"]' >/run/script/cluster.toml
cat >/run/script/agree.toml <<END
name = "eggs"
tolerates = 0
round_ms = 500
wait_s = 60
key = "KEY"
proposal = "/run/script/cluster.toml"
member = [{ address = "127.0.0.1:7600", key = "$key" }]
END
"$fulmar" agree --config /run/script/agree.toml --out AGREED

cd ../switch
printf 'directory = "DIRECTORY"\n[[bridge]]\nname = "BRIDGE"\n' >/run/script/switch.toml
"$fulmar" switch --config /run/script/switch.toml &
await '[ -S DIRECTORY/BRIDGE.snoop ]'

cd ../net
printf '[[host]]\nname = "a"\n[[switch]]\nname = "SWITCH"\n[[link]]\nends = ["a", "SWITCH"]\n' >/run/script/net.toml
"$fulmar" net up /run/script/net.toml --name NAME

cd ../demo
sleep infinity | TMPDIR="$PWD/TMPDIR" "$fulmar" demo >/run/script/demo &
says demo 'Three servers'

# Some of their files are for their user alone until they are closed.
kill $servers
wait $servers || true
echo after
list
