#!/usr/bin/env bash
# fio on the loop device, every byte verified: the job of the kernel's RAM disk discussion (libaio),
# and mixed block sizes from one sector to 1 MiB through io_uring, with trims between.
#
#   loop_fio_test.sh UZRAM
. "$(dirname "$0")/loop_lib.sh"
need fio python3

# job NAME OPTION...: the name is printed with what fio did.
job() {
  local name=$1
  shift
  fio --name="$name" --filename="$device" --direct=1 --aux-path="$work" --verify=crc32c --verify_fatal=1 \
    --randrepeat=0 --output-format=json "$@" >"$work/out" 2>"$work/err" ||
    die "$name: $(cat "$work/err" "$work/out")"
  python3 - "$name" "$work/out" <<'PY'
import json, sys
job = json.load(open(sys.argv[2]))["jobs"][0]
read, write = job["read"], job["write"]
print(f"ok: {sys.argv[1]}: {write['total_ios']} writes at {write['iops']:.0f}/s,"
      f" {read['total_ios']} reads at {read['iops']:.0f}/s")
if job["error"] or not read["total_ios"] or not write["total_ios"]: sys.exit("nothing was verified")
PY
}

io_uring_works() {
  fio --name=probe --filename="$device" --direct=1 --rw=read --bs=4k --size=4k \
    --ioengine=io_uring >/dev/null 2>&1
}

for type in zram ram; do
  for block in 512 4096; do
    echo "== $type, blocks of $block"
    loop_start fio --size 256M --type "$type" --block-size "$block"
    job brd --rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 --norandommap --size=200M
    if io_uring_works; then
      job mixed-sizes --rw=randwrite --bssplit="$block/40:12k/30:68k/20:1M/10" --ioengine=io_uring --iodepth=16 \
        --size=128M --buffer_compress_percentage=50 --refill_buffers
    else
      echo "SKIPPED: io_uring, which this kernel does not allow"
    fi
    job edges --rw=write --bs=1M --ioengine=libaio --iodepth=4 --offset=254M --size=2M
    fio --name=trim --filename="$device" --direct=1 --rw=trim --bs=1M --size=256M \
      --ioengine=psync >/dev/null
    [[ $(counter fio orig_data_size) == 0 ]] || die "trim left $(counter fio orig_data_size) bytes"
    "$uzram" stop fio
  done
done
