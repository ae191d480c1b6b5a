#!/usr/bin/env bash
# scripts/quickstart.sh with a built program: by mount, over NBD, and ended in the middle. Each
# leaves neither device, mount nor file behind.
#
#   quickstart_test.sh QUICKSTART UZRAM
set -euo pipefail

quickstart=$1
uzram=$2
TMPDIR=$(mktemp -d)
export TMPDIR
log=$TMPDIR.log
trap 'rm -rf "$TMPDIR" "$log"' EXIT

fail() {
  cat "$log"
  echo "quickstart_test.sh: $*" >&2
  exit 1
}

nothing_left() {
  ! findmnt -rno TARGET | grep -F "$TMPDIR" || fail "$1: a mount is left"
  [[ -z $(ls -A "$TMPDIR") ]] || fail "$1: files are left: $(ls -A "$TMPDIR")"
  "$uzram" list >"$TMPDIR/list" || fail "$1: uzram list failed"
  ! grep "quickstart-$2" "$TMPDIR/list" || fail "$1: the device is left"
  rm "$TMPDIR/list"
}

# run ARGUMENTS...: one whole run.
run() {
  "$quickstart" --uzram "$uzram" "$@" >"$log" 2>&1 &
  local pid=$!
  wait "$pid" || fail "$*: status $?"
  cat "$log"
  grep -q '^all equal' "$log" || fail "$*: does not say that all is equal"
  nothing_left "$*" "$pid"
}

run
! grep -q 'the same job over NBD' "$log" || echo "SKIP: quickstart by mount: not possible here"
run --nbd

"$quickstart" --uzram "$uzram" >"$log" 2>&1 &
pid=$!
until grep -q 'copying' "$log"; do
  kill -0 "$pid" 2>/dev/null || fail "ended before it could be interrupted"
  sleep 0.05
done
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
[[ $status == 143 ]] || fail "ended by SIGTERM: status $status"
nothing_left "ended by SIGTERM" "$pid"
