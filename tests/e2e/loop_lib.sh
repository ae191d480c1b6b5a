# What the loop tests share; sourced with the binary's path as $1.
#
# Gives $work, a private directory that is also the runtime directory, and `loop_start NAME OPTION..`,
# which sets $device. Everything that a test leaves is taken down at its end, whichever way it ends.
set -euo pipefail

uzram=$(realpath "${1:?usage: $0 UZRAM}")

[[ -x $uzram ]] || {
  echo "FAILED: $uzram: not built" >&2
  exit 1
}

skip() {
  echo "SKIPPED: needs $1"
  exit 77
}

# need PROGRAM...
need() {
  [[ $(id -u) == 0 ]] || skip root
  [[ -w /dev/fuse ]] || skip /dev/fuse
  [[ -w /dev/loop-control ]] || skip /dev/loop-control
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || skip "$program"
  done
}

die() {
  echo "FAILED: $*" >&2
  exit 1
}

loop_start() {
  local lines
  lines=$("$uzram" start "$@" --loop)
  device=$(sed -n 's/^loop\t//p' <<<"$lines")
  [[ -b $device ]] || die "start printed no block device: $lines"
}

# counter NAME FIELD: one number of `uzram stat`.
counter() {
  "$uzram" stat "$1" --json | python3 -c 'import json, sys
def find(tree):
    for key, value in tree.items():
        if key == sys.argv[1]: print(value); sys.exit()
        if isinstance(value, dict): find(value)
find(json.load(sys.stdin)); sys.exit("no such counter")' "$2"
}

# Whether $device is bound to nothing of ours; its number may have a new owner by now.
gone() {
  python3 - "$device" "$UZRAM_RUNTIME_DIR" <<'PY'
import fcntl, sys
LOOP_GET_STATUS64, NAME = 0x4C05, slice(56, 120)
try:
    with open(sys.argv[1], "rb") as device:
        info = fcntl.ioctl(device, LOOP_GET_STATUS64, bytes(232))
except OSError:
    sys.exit(0)
sys.exit(info[NAME].startswith(sys.argv[2].encode()))
PY
}

clean_up() {
  set +e
  local point
  for point in "$work"/mnt*; do
    mountpoint -q "$point" && umount "$point"
  done
  mountpoint -q "$work/sys" && umount "$work/sys"
  "$uzram" list --json | python3 -c 'import json, sys
for device in json.load(sys.stdin): print(device["name"])' | while read -r name; do
    "$uzram" stop "$name"
  done
  rm -rf --one-file-system "$work"
}

work=$(mktemp -d -t uzram-loop-e2e.XXXXXX)
export UZRAM_RUNTIME_DIR=$work/run
trap clean_up EXIT
