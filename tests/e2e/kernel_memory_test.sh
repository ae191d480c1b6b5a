#!/usr/bin/env bash
# The same bytes on a zram device of the kernel and on ours: as many pages, as much packed data, and
# no more memory for it. Prints both `mm_stat` lines; docs/BENCHMARKS.md says what came out.
#
#   kernel_memory_test.sh UZRAM [MIB [CODEC [FILE]]]
#
# Without a FILE: a tar of /usr.
. "$(dirname "$0")/loop_lib.sh"
need tar cmp
mib=${2-160}
codec=${3-lz4}
control=/sys/class/zram-control
[[ -w $control/hot_remove ]] || skip "the kernel's zram"

kernel=$(cat "$control/hot_add")
remove_kernel() {
  echo 1 >"/sys/block/zram$kernel/reset"
  echo "$kernel" >"$control/hot_remove"
}
trap 'clean_up; remove_kernel' EXIT
grep -qw "$codec" "/sys/block/zram$kernel/comp_algorithm" || skip "$codec in the kernel's zram"
# A machine without a device manager makes no node.
node=/dev/zram$kernel
if [[ ! -b $node ]]; then
  IFS=: read -r major minor <"/sys/block/zram$kernel/dev"
  node=$work/zram
  mknod "$node" b "$major" "$minor"
fi

# `head` leaves when it has enough, which tar takes for a fault.
bytes() { if [[ -n ${1-} ]]; then cat "$1"; else tar -C / -cf - usr 2>/dev/null || true; fi; }
bytes "${4-}" | head -c "${mib}M" >"$work/bytes" || true
(($(stat -c %s "$work/bytes") == mib << 20)) || skip "$mib MiB of data"

echo "$codec" >"/sys/block/zram$kernel/comp_algorithm"
echo "${mib}M" >"/sys/block/zram$kernel/disksize"
loop_start a --size "${mib}M" --algo "$codec"
for to in "$node" "$device"; do
  dd if="$work/bytes" of="$to" bs=1M oflag=direct status=none
done
echo 1 >"/sys/block/zram$kernel/compact"
"$uzram" compact a
cmp "$work/bytes" "$device"

read -r -a theirs <"/sys/block/zram$kernel/mm_stat"
read -r -a ours <<<"$("$uzram" get a mm_stat)"
echo "kernel: ${theirs[*]}"
echo "ours:   ${ours[*]}"
python3 - "${ours[@]:0:3}" "${theirs[@]:0:3}" <<'END'
import sys
packed, used, packed_there, used_there = (int(sys.argv[i]) for i in (2, 3, 5, 6))
print(f"memory per packed byte: ours {used / packed:.4f}, kernel {used_there / packed_there:.4f}")
END
[[ ${ours[0]} == "${theirs[0]}" ]] || die "orig_data_size differs"
[[ ${ours[5]} == "${theirs[5]}" ]] || die "same_pages differs"
((ours[1] <= theirs[1] + theirs[1] / 100 && ours[1] >= theirs[1] - theirs[1] / 100)) ||
  die "compr_data_size differs by more than 1 %"
((ours[2] < theirs[2])) || die "mem_used_total is not lower"
