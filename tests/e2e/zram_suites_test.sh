#!/usr/bin/env bash
# What the public test suites ask of zram, on our tree and our loop devices: LTP's zram01 to zram03
# and the kernel's own zram01 and zram02. Then zramctl, unchanged, on a device of ours.
#
#   zram_suites_test.sh UZRAM
. "$(dirname "$0")/loop_lib.sh"
need mkfs.ext4 mkswap swapon swapoff python3 umount unshare

sys=$work/sys
mkdir "$sys" "$work/mnt"
"$uzram" sysfs "$sys"

# hot_add: sets $number and $block.
hot_add() {
  number=$(cat "$sys/class/zram-control/hot_add")
  block=$sys/block/zram$number
}

hot_remove() {
  echo 1 >"$block/reset"
  echo "$number" >"$sys/class/zram-control/hot_remove"
  [[ ! -e $block ]] || die "$block is there after hot_remove"
}

# store VALUE FILE: written, and read back as given or as EXPECTED.
store() {
  local value=$1 file=$2 expected=${3-$1} got
  echo "$value" >"$file" || die "$file does not take $value"
  got=$(cat "$file")
  [[ $got == "$expected" ]] || die "$file: wrote $value, reads $got"
}

# Each codec that is listed can be chosen.
try_codecs() {
  local codec
  for codec in $(tr -d '[]' <"$block/comp_algorithm"); do
    echo "$codec" >"$block/comp_algorithm"
    grep -qF "[$codec]" "$block/comp_algorithm" || die "$codec was not chosen"
    codecs=${codecs:+$codecs }$codec
  done
}

# set_up CODEC SIZE LIMIT: sizes in MiB; sets $device.
set_up() {
  local codec=$1 size=$2 limit=$3
  echo "$codec" >"$block/comp_algorithm"
  store $((size << 20)) "$block/disksize"
  store "${limit}M" "$block/mem_limit" $((limit << 20))
  device=$(readlink "$sys/dev/zram$number")
  [[ -b $device ]] || die "dev/zram$number leads to no block device: $device"
}

# Appends zero blocks of 1 KiB to a file until there is no room; prints how many bytes that were.
fill() {
  python3 - "$1" <<'PY'
import sys
total = 0
with open(sys.argv[1], "ab", buffering=0) as file:
    try:
        while True: total += file.write(bytes(1024))
    except OSError: pass
print(total)
PY
}

# with_fs FS SIZE LIMIT CODEC
with_fs() {
  local fs=$1 size=$2 limit=$3 codec=$4 written used
  hot_add
  set_up "$codec" "$size" "$limit"
  "mkfs.$fs" "$device" >/dev/null 2>"$work/mkfs" || die "mkfs.$fs: $(cat "$work/mkfs")"
  mount "$device" "$work/mnt"
  if echo 1 2>/dev/null >"$block/reset"; then die "$fs: a mounted device was reset"; fi
  if echo "$number" 2>/dev/null >"$sys/class/zram-control/hot_remove"; then
    die "$fs: a mounted device was removed"
  fi
  written=$(fill "$work/mnt/file")
  sync -f "$work/mnt"
  used=$(cut -d' ' -f3 "$block/mm_stat")
  umount "$work/mnt"
  ((written > 0)) || die "$fs: nothing could be written"
  ((used > 0)) || die "$fs: mem_used_total is 0"
  ((written >= used)) || die "$fs: $written bytes written take $used"
  hot_remove
  echo "ok: $fs, $codec: $written bytes of zeros take $used"
}

# on_swap SIZE LIMIT: with a unit each.
on_swap() {
  hot_add
  store "$1" "$block/disksize" "$(numfmt --from=iec "$1")"
  echo "$2" >"$block/mem_limit"
  device=$(readlink "$sys/dev/zram$number")
  mkswap "$device" >/dev/null
  # Never before another swap area of the machine.
  swapon -p 0 "$device" || die "swapon refuses a device of $1"
  grep -q "^$device " /proc/swaps || die "$device is no swap area"
  if echo 1 2>/dev/null >"$block/reset"; then die "a swap area was reset"; fi
  swapoff "$device"
  hot_remove
  echo "ok: swap on $1 with a limit of $2"
}

echo "== LTP zram01: file systems and codecs"
hot_add
codecs=
try_codecs
hot_remove
read -ra codecs <<<"$codecs"
at=0
for fs in ext2 ext3 ext4 xfs btrfs; do
  if ! command -v "mkfs.$fs" >/dev/null || ! grep -qw "$fs" /proc/filesystems; then
    echo "SKIPPED: $fs, which this machine does not have"
    continue
  fi
  case $fs in
    xfs | btrfs) size=384 limit=384 ;;
    *) size=25 limit=25 ;;
  esac
  with_fs "$fs" "$size" "$limit" "${codecs[at++ % ${#codecs[@]}]}"
done
# Those that no file system was left for.
while ((at < ${#codecs[@]})); do with_fs ext4 25 25 "${codecs[at++]}"; done

echo "== LTP zram02: swap on 100 GiB with a limit of 1M"
on_swap 100G 1M

echo "== LTP zram03: a shared mapping, read back, reset"
hot_add
show() { echo "initstate $(cat "$block/initstate") disksize $(cat "$block/disksize") mm_stat $(cat "$block/mm_stat")"; }
show
set_up lz4 512 0
python3 - "$device" $((512 << 20)) <<'PY'
import mmap, sys
path, size = sys.argv[1], int(sys.argv[2])
letters = b"a" * (1 << 20)
with open(path, "r+b") as disk, mmap.mmap(disk.fileno(), size, mmap.MAP_SHARED) as memory:
    for at in range(0, size, len(letters)): memory[at:at + len(letters)] = letters
    memory[size - 1] = 0
    memory.flush()
with open(path, "rb") as disk, mmap.mmap(disk.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ) as memory:
    for at in range(0, size - len(letters), len(letters)):
        if memory[at:at + len(letters)] != letters: sys.exit(f"bytes differ at {at}")
    if memory[size - len(letters):] != letters[:-1] + b"\0": sys.exit("the last bytes differ")
PY
show
[[ $(cut -d' ' -f1 "$block/mm_stat") == $((512 << 20)) ]] || die "not every page is stored"
echo 1 >"$block/reset"
show
[[ $(cat "$block/initstate") == 0 && $(cat "$block/disksize") == 0 ]] || die "reset left a size"
[[ $(cat "$block/mm_stat") == "0 0 0 0 0 0 0 0 0" ]] || die "reset left figures"
hot_remove

echo "== the kernel's selftests: 2 MiB of ext4, 1 MiB of swap"
with_fs ext4 2 2 lz4
on_swap 1M 500K

echo "== zramctl"
if ! command -v zramctl >/dev/null; then
  echo "SKIPPED: zramctl, which is not installed"
  exit
fi
hot_add
set_up zstd 64 32
dd if=/dev/urandom of="$device" bs=4k count=8 conv=notrunc status=none
dd if=/dev/zero of="$device" bs=4k seek=8 count=4 conv=fsync,notrunc status=none
blockdev --flushbufs "$device"
# zramctl finds a device by its node and, under /sys/dev/block, by its number.
listed=$(unshare -m bash -euc '
  mount --make-rprivate /
  mount -t tmpfs none /sys/dev/block
  mkdir "/sys/dev/block/$(cat "$1/dev")"
  mount --bind "$1" "/sys/dev/block/$(cat "$1/dev")"
  mount -t tmpfs none /mnt
  mknod /mnt/zram0 b $((0x$(stat -c %t "$2"))) $((0x$(stat -c %T "$2")))
  mount --bind /mnt /dev
  zramctl --bytes --raw --noheadings --output NAME,DISKSIZE,DATA,COMPR,ALGORITHM,ZERO-PAGES,TOTAL,MEM-LIMIT,MEM-USED,MIGRATED /dev/zram0
' - "$block" "$device")
read -r orig compr total limit peak same moved _ <"$block/mm_stat"
expected="/dev/zram0 $((64 << 20)) $orig $compr zstd $same $total $limit $peak $moved"
[[ $listed == "$expected" ]] || die "zramctl lists '$listed', expected '$expected'"
[[ $orig == $((12 << 12)) && $same == 4 && $limit == $((32 << 20)) ]] || die "wrong figures: $listed"
echo "ok: $listed"
hot_remove
