#!/usr/bin/env bash
# What a slow backing store costs those who don't need it.
#
#   bench/store_delay.sh UZRAM [RUNS [SECONDS]]
#
# Half of a device's pages go to an NBD export in memory that delays every read by 200 ms; the other half stays in
# memory and is read at random, 4 KiB at depth 1, alone and while 32 reads of the first half are under way at all
# times. Alternates the two, prints the latency of each run and the ratio of the medians of the 99th percentile; by
# the loop device, and by NBD over a Unix socket. Needs root for the loop device, fio and nbdkit.
set -euo pipefail

uzram=$(realpath "${1:?usage: store_delay.sh UZRAM [RUNS [SECONDS]]}")
runs=${2-5}
seconds=${3-5}
dir=$(mktemp -d)
export UZRAM_RUNTIME_DIR=$dir/run
server=
clean_up() {
  "$uzram" stop --force slow >"$dir/stop" 2>&1 || true
  if [[ -n $server ]]; then kill "$server" && wait "$server" || true; fi
  rm -rf "$dir"
}
trap clean_up EXIT

nbdkit -f -U "$dir/store" -P "$dir/pid" --filter=delay memory 512M rdelay=200ms 2>"$dir/nbdkit" &
server=$!
while [[ ! -e $dir/pid ]]; do
  kill -0 "$server"
  sleep 0.1
done
"$uzram" start slow --size 512M --backing "nbd+unix:///?socket=$dir/store" --loop --nbd auto >"$dir/ways"
loop=$(awk '$1 == "loop" { print $2 }' "$dir/ways")
nbd=$(awk '$1 == "nbd" { print $2 }' "$dir/ways")
dd if=/dev/urandom of="$loop" bs=1M count=512 oflag=direct status=none
"$uzram" writeback slow page_indexes=0-65535

fio_read() {
  fio --name="$1" --rw=randread --bs=4k --time_based --size=256M --output-format=json "${@:2}"
}
p99() {
  python3 -c '
import json, sys
text = sys.stdin.read()  # the NBD engine says hello first
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
print(read["clat_ns"]["percentile"]["99.000000"] / 1000, int(read["iops"]))'
}
for way in "loop io_uring --filename=$loop --direct=1" "nbd nbd --uri=$nbd"; do
  read -r kind engine rest <<<"$way"
  read -ra how <<<"--ioengine=$engine $rest"
  : >"$dir/alone"
  : >"$dir/beside"
  for ((run = 0; run < runs; ++run)); do
    fio_read memory "${how[@]}" --iodepth=1 --offset=256M --runtime="$seconds" | p99 >>"$dir/alone"
    fio_read store "${how[@]}" --iodepth=32 --offset=0 --runtime=$((seconds + 2)) >"$dir/store.json" &
    waiting=$!
    sleep 1
    fio_read memory "${how[@]}" --iodepth=1 --offset=256M --runtime="$seconds" | p99 >>"$dir/beside"
    wait "$waiting"
  done
  python3 - "$kind" "$dir/alone" "$dir/beside" <<'END'
import statistics, sys
kind, *files = sys.argv[1:]
values = [[float(line.split()[0]) for line in open(name, encoding="ascii")] for name in files]
for what, series in zip(("alone", "beside"), values):
    print(f"{kind} {what}: p99 in us: " + " ".join(f"{value:.0f}" for value in series))
medians = [statistics.median(series) for series in values]
print(f"{kind}: p99 beside / alone: {medians[1] / medians[0]:.2f}")
END
done
