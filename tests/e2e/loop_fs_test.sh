#!/usr/bin/env bash
# Real file systems on the loop device: made, filled, checked, trimmed, remounted, checked again; and
# what stop and a killed process mean to one that is mounted.
#
#   loop_fs_test.sh UZRAM
. "$(dirname "$0")/loop_lib.sh"
need mkfs.ext4 e2fsck mkfs.xfs xfs_repair mkfs.btrfs btrfs fstrim python3

# Some tens of MiB of the system's own files; small and large ones.
tree=$work/tree
mkdir -p "$tree" "$work/mnt"
cp -a /usr/share/perl /usr/share/zoneinfo "$tree" 2>/dev/null || true
mkdir "$tree/bin"
find /usr/bin -maxdepth 1 -type f -size -96k -exec cp -a -t "$tree/bin" {} +
removed=$(du -sb "$tree/bin" | cut -f1)

make_fs() {
  case $1 in
    ext4) mkfs.ext4 -q "$device" ;;
    xfs) mkfs.xfs -q -f "$device" ;;
    btrfs) mkfs.btrfs -q -f "$device" >/dev/null ;;
  esac
}

check_fs() {
  case $1 in
    ext4) e2fsck -fn "$device" ;;
    xfs) xfs_repair -n "$device" ;;
    btrfs) btrfs check --readonly "$device" ;;
  esac >"$work/fsck" 2>&1 || die "$1 is damaged: $(cat "$work/fsck")"
}

holds_tree() {
  diff -r --no-dereference "$tree" "$work/mnt/tree" || die "$1: files differ"
}

one_fs() {
  local fs=$1 full trimmed
  make_fs "$fs"
  mount "$device" "$work/mnt"
  cp -a "$tree" "$work/mnt/tree"
  umount "$work/mnt" # drops every cache
  check_fs "$fs"
  mount "$device" "$work/mnt"
  holds_tree "$fs"
  full=$(counter fs orig_data_size)
  rm -rf "$work/mnt/tree/bin"
  sync -f "$work/mnt"
  fstrim "$work/mnt"
  trimmed=$(counter fs orig_data_size)
  ((full - trimmed >= removed * 9 / 10)) ||
    die "$fs: trim gave back $((full - trimmed)) bytes of $removed removed"
  cp -a "$tree/bin" "$work/mnt/tree/bin"
  umount "$work/mnt"
  check_fs "$fs"
  mount "$device" "$work/mnt"
  holds_tree "$fs"
  umount "$work/mnt"
  blkdiscard -f "$device" 2>/dev/null
  [[ $(counter fs orig_data_size) == 0 ]] || die "$fs: something is left after a full discard"
  echo "ok: $fs, $full bytes stored, $trimmed after trim"
}

for type in zram ram; do
  for block in 512 4096; do
    loop_start fs --size 512M --type "$type" --block-size "$block"
    [[ $(blockdev --getss "$device") == "$block" ]] || die "wrong block size"
    [[ $(blockdev --getsize64 "$device") == $((512 << 20)) ]] || die "wrong size"
    echo "== $type, blocks of $block"
    for fs in ext4 xfs btrfs; do one_fs "$fs"; done
    "$uzram" stop fs
  done
done

echo "== a mounted device"
loop_start fs --size 512M
make_fs ext4
! gone || die "the loop device is not seen while it is there"
mount "$device" "$work/mnt"
if message=$("$uzram" stop fs 2>&1); then die "a mounted device was stopped"; fi
[[ $message == *"$device"*"$work/mnt"* ]] || die "the refusal names no mount: $message"
cp -a "$tree/bin" "$work/mnt/bin"
sync -f "$work/mnt"
umount "$work/mnt"
"$uzram" stop fs
gone || die "the loop device outlived stop"

echo "== a killed process under a mount"
loop_start fs --size 512M
make_fs ext4
mount "$device" "$work/mnt"
cp -a "$tree/bin" "$work/mnt/bin"
kill -9 "$("$uzram" list --json | python3 -c 'import json, sys
print(json.load(sys.stdin)[0]["pid"])')"
if timeout 20 cp -a "$tree/bin" "$work/mnt/again" 2>/dev/null &&
  sync -f "$work/mnt" 2>/dev/null; then
  die "writes to a device that is gone succeed"
fi
timeout 20 umount "$work/mnt"
"$uzram" stop fs
gone || die "the loop device of a killed process is left"
! grep -q "$work" /proc/self/mountinfo || die "a mount is left"
[[ -z $(ls -A "$UZRAM_RUNTIME_DIR") ]] || die "left behind: $(ls -A "$UZRAM_RUNTIME_DIR")"
