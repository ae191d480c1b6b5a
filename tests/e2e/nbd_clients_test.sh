#!/usr/bin/env bash
# Real NBD clients on a real device: nbdinfo, nbdsh, nbdcopy, qemu-img, qemu-io and fio, for both device
# types, over a Unix socket and TCP.
#
#   nbd_clients_test.sh UZRAM
set -euo pipefail

uzram=$(realpath "${1:?usage: $0 UZRAM}")
for program in nbdinfo nbdcopy qemu-img qemu-io fio; do
  command -v "$program" >/dev/null || { echo "SKIPPED: needs $program"; exit 77; }
done
# The system's python3 has libnbd's module, another one on the PATH may not.
/usr/bin/python3 -c 'import nbd' 2>/dev/null || { echo "SKIPPED: needs python3-libnbd"; exit 77; }

die() {
  echo "FAILED: $*" >&2
  exit 1
}

work=$(mktemp -d -t uzram-nbd-e2e.XXXXXX)
export UZRAM_RUNTIME_DIR=$work/run
clean_up() {
  "$uzram" stop d >/dev/null 2>&1 || true
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT

start() {
  uri=$("$uzram" start d "$@" | sed -n 's/^nbd\t//p')
  [[ -n $uri ]] || die "start printed no URI"
}

about() {
  [[ $(nbdinfo --size "$uri") == 134217728 ]] || die "nbdinfo: size"
  nbdinfo "$uri" >"$work/info"
  local feature
  for feature in can_flush can_fua can_trim can_zero can_fast_zero can_df can_cache can_multi_conn; do
    grep -q "$feature: true" "$work/info" || die "nbdinfo: no $feature"
  done
  grep -q 'block_size_maximum: 33554432' "$work/info" || die "nbdinfo: maximum"
  nbdinfo --list "$uri" | grep -q 'export="d"' || die "nbdinfo: list"
  qemu-img info "$uri" | grep -q '134217728' || die "qemu-img info"
}

# A discard and zeroes of every edge change what was asked and nothing else.
edges() {
  qemu-io -f raw -c "write -P 0xa5 0 16384" -c "discard 1024 512" -c "read -P 0xa5 0 1024" \
    -c "read -P 0xa5 1536 14848" -c "write -z 512 512" -c "read -P 0 512 512" -c "write -z -u 4095 2" \
    -c "read -P 0xa5 1536 2559" -c "discard 3584 5120" -c "read -P 0xa5 8704 7680" "$uri" \
    >"$work/qemu-io" 2>&1 || { cat "$work/qemu-io"; die "qemu-io"; }
  ! grep -qE 'failed|error' "$work/qemu-io" || { cat "$work/qemu-io"; die "qemu-io: pattern"; }
  qemu-io -f raw -c "discard 0 128M" -c "discard 0 128M" -c "write -z -u 0 128M" "$uri" >/dev/null
  [[ $(nbdinfo --map --totals "$uri") =~ 134217728.*100.0%.*hole,zero ]] || die "map after discard"
}

limits() {
  /usr/bin/python3 - "$uri" <<'PY'
import errno, sys, nbd
h = nbd.NBD()
h.set_strict_mode(0)
h.connect_uri(sys.argv[1])
size = h.get_size()
def refused(what, number, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == number, (what, error)
        return
    sys.exit("FAILED: %s was not refused" % what)
refused("write past the end", errno.ENOSPC, lambda: h.pwrite(b"x", size))
refused("read past the end", errno.EINVAL, lambda: h.pread(2, size - 1))
refused("trim past the end", errno.EINVAL, lambda: h.trim(4096, size))
big = bytes(range(256)) * (32 * 4096)
h.pwrite(big, 4095)
assert h.pread(len(big), 4095) == big
h.pwrite(b"last", size - 4, nbd.CMD_FLAG_FUA)
assert h.pread(4, size - 4) == b"last"
h.flush()
h.zero(len(big), 4095, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(len(big), 4095) == bytes(len(big))
h.shutdown()
PY
}

# An image in and out over several connections, and a conversion.
copies() {
  /usr/bin/python3 -c 'import random, sys
random.seed(5)
for i in range(32768):
    kind = i % 4
    sys.stdout.buffer.write(bytes(4096) if kind == 0 else random.randbytes(4096) if kind == 1 else
                            (b"page %d " % i * 600)[:4096])' >"$work/image"
  nbdcopy --connections=8 "$work/image" "$uri"
  nbdcopy --connections=8 "$uri" "$work/back"
  cmp "$work/image" "$work/back" || die "nbdcopy"
  qemu-img compare -f raw -F raw "$work/image" "$uri" >/dev/null || die "qemu-img compare"
  qemu-img convert -f raw -O qcow2 "$uri" "$work/image.qcow2"
  qemu-img compare -f raw -F qcow2 "$work/image" "$work/image.qcow2" >/dev/null || die "qemu-img convert"
}

verified_load() {
  fio --name=mixed --ioengine=nbd --uri="$uri" --rw=randwrite --bsrange=512-1M --size=128M --io_size=192M \
    --iodepth=32 --verify=crc32c --verify_backlog=256 --verify_fatal=1 --aux-path="$work" --output="$work/fio" ||
    { cat "$work/fio"; die "fio"; }
  grep -q 'err= 0' "$work/fio" || { cat "$work/fio"; die "fio: error"; }
}

for type in zram ram; do
  for address in auto tcp:127.0.0.1:0; do
    start --size 128M --type "$type" --nbd "$address"
    about
    edges
    limits
    copies
    verified_load
    "$uzram" stop d
    [[ -z $(ls -A "$UZRAM_RUNTIME_DIR") ]] || die "left behind: $(ls "$UZRAM_RUNTIME_DIR")"
    echo "ok: $type, $address"
  done
done

# The limit: ENOSPC and not EIO, and the connection lives.
start --size 128M --mem-limit 4M --nbd auto
/usr/bin/python3 - "$uri" <<'PY'
import errno, random, sys, nbd
h = nbd.NBD()
h.connect_uri(sys.argv[1])
random.seed(1)
kept = {}
for page in range(4096):
    data = random.randbytes(4096)
    try:
        h.pwrite(data, page * 4096)
    except nbd.Error as error:
        assert error.errnum == errno.ENOSPC, error
        break
    kept[page] = data
else:
    sys.exit("FAILED: the limit was never met")
assert len(kept) > 900
for page, data in kept.items():
    assert h.pread(4096, page * 4096) == data
h.trim(1 << 20, 0)
h.pwrite(random.randbytes(4096), 2000 * 4096)
h.shutdown()
PY
echo "ok: limit"
