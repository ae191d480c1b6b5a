#!/usr/bin/env bash
# A loop device that grows under a mounted file system, and shrinks to where its data ends: files
# stay, sizes are the same wherever they are read, and what comes back reads zero.
#
#   loop_resize_test.sh UZRAM
. "$(dirname "$0")/loop_lib.sh"
need mkfs.ext4 resize2fs e2fsck mkfs.xfs xfs_growfs xfs_repair blkdiscard blockdev

MiB=$((1 << 20))

# has_size MIB: the block device, the device's record and its attribute agree.
has_size() {
  local want=$(($1 * MiB)) listed
  [[ $(blockdev --getsize64 "$device") == "$want" ]] || die "block device: $(blockdev --getsize64 "$device"), not $want"
  [[ $("$uzram" get a disksize) == "$want" ]] || die "disksize: $("$uzram" get a disksize), not $want"
  listed=$("$uzram" list --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["size"])')
  [[ $listed == "$want" ]] || die "list: $listed, not $want"
  [[ $(stat -c %s "$UZRAM_RUNTIME_DIR/a.loop/disk") == "$want" ]] || die "the file behind it is of another size"
}

loop_start a --size 64M --nbd "unix:$work/nbd"
mkfs.ext4 -q "$device"
mkdir "$work/mnt"
mount "$device" "$work/mnt"
head -c $((24 * MiB)) /dev/urandom >"$work/mnt/random"
sync
sum=$(sha256sum <"$work/mnt/random")
blocks=$(stat -f -c %b "$work/mnt")

# Grown while it is mounted.
"$uzram" set a resize 256M
has_size 256
if ! resize2fs "$device" >"$work/resize2fs" 2>&1; then
  grep -q "Permission denied" "$work/resize2fs" || die "resize2fs: $(cat "$work/resize2fs")"
  echo "SKIPPED: a mounted ext4 that grows needs CAP_SYS_RESOURCE; grown unmounted"
  umount "$work/mnt"
  e2fsck -fp "$device" >/dev/null
  resize2fs "$device" >/dev/null 2>&1
  mount "$device" "$work/mnt"
fi
(($(stat -f -c %b "$work/mnt") > 3 * blocks)) || die "the file system did not grow"
head -c $((100 * MiB)) /dev/urandom >"$work/mnt/more"
sync
more=$(sha256sum <"$work/mnt/more")
[[ $(sha256sum <"$work/mnt/random") == "$sum" ]] || die "a file changed by growing"

# New NBD clients see it, too.
if command -v nbdinfo >/dev/null; then
  [[ $(nbdinfo --size "nbd+unix:///?socket=$work/nbd") == $((256 * MiB)) ]] || die "NBD kept its size"
fi

# Data is never cut, not even under a mounted file system.
if "$uzram" set a resize 64M 2>"$work/why"; then die "data was cut"; fi
grep -q "holds data" "$work/why" || die "refused, but: $(cat "$work/why")"
has_size 256
umount "$work/mnt"
e2fsck -fp "$device" >/dev/null
mount "$device" "$work/mnt"
[[ $(sha256sum <"$work/mnt/more") == "$more" ]] || die "a refused resize changed a file"

# Shrunk to where the file system ends, with the rest discarded.
rm "$work/mnt/more"
umount "$work/mnt"
e2fsck -fp "$device" >/dev/null
resize2fs "$device" 48M >"$work/resize2fs" 2>&1 || die "resize2fs: $(cat "$work/resize2fs")"
blkdiscard -f -o $((48 * MiB)) -l $((208 * MiB)) "$device" 2>/dev/null
"$uzram" set a resize 48M
has_size 48
if dd if=/dev/zero of="$device" bs=1M seek=48 count=1 oflag=direct status=none 2>/dev/null; then
  die "a write past the end was taken"
fi
e2fsck -fn "$device" >/dev/null 2>&1
mount "$device" "$work/mnt"
[[ $(sha256sum <"$work/mnt/random") == "$sum" ]] || die "a file changed by shrinking"
umount "$work/mnt"

# What comes back reads zero.
"$uzram" set a resize 256M
has_size 256
cmp -n $((208 * MiB)) <(dd if="$device" bs=1M skip=48 iflag=direct status=none) /dev/zero || die "old data came back"

for size in 0 1Mx -1 9223372036854775807; do
  if "$uzram" set a resize "$size" 2>/dev/null; then die "size $size was taken"; fi
done
has_size 256
"$uzram" stop a
gone || die "the loop device stayed"

# XFS grows mounted wherever it can be mounted.
loop_start b --size 320M
mkfs.xfs -q "$device"
mount "$device" "$work/mnt"
head -c $((24 * MiB)) /dev/urandom >"$work/mnt/random"
sum=$(sha256sum <"$work/mnt/random")
"$uzram" set b resize 1G
xfs_growfs "$work/mnt" >/dev/null
(($(stat -f -c '%b * %S' "$work/mnt") > 900 * MiB)) || die "XFS did not grow"
sync
[[ $(sha256sum <"$work/mnt/random") == "$sum" ]] || die "a file changed by growing"
umount "$work/mnt"
xfs_repair -n "$device" >/dev/null 2>&1 || die "XFS is damaged"
"$uzram" stop b
echo PASSED
