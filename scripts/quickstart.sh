#!/usr/bin/env bash
# Installs what is missing, builds uzram and lets it do its job once on real data: a 1 GiB zram
# device, a file system on it, a few hundred MiB of this system's own files copied in, every one
# compared after the caches were dropped, half of them deleted and trimmed. Prints what that took
# and leaves nothing behind. Takes less than a minute after the build.
#
#   scripts/quickstart.sh [--nbd] [--uzram PROGRAM]
#
#   --nbd              no mount: a tar of the same files goes in and out over NBD. This is also what
#                      happens by itself where mounting is not allowed
#   --uzram PROGRAM    tries this program: installs and builds nothing
set -euo pipefail

data_bytes_max=$((350 << 20))
files_max=30000 # ext4 makes 65536 inodes on 1 GiB
name=quickstart-$$
mode=mount
uzram=

usage() {
  echo "usage: quickstart.sh [--nbd] [--uzram PROGRAM]" >&2
  exit 2
}
while [[ $# -gt 0 ]]; do
  case $1 in
    --nbd) mode=nbd ;;
    --uzram)
      [[ $# -ge 2 ]] || usage
      uzram=$(realpath "$2")
      shift
      ;;
    *) usage ;;
  esac
  shift
done

cd "$(dirname "$0")/.."
if [[ -z $uzram ]]; then
  scripts/build.sh
  uzram=build/release/uzram
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/uzram-quickstart.XXXXXX")
mnt=$work/mnt
started=
mkdir "$mnt"
if [[ $(id -u) != 0 && -z ${XDG_RUNTIME_DIR-} && -z ${UZRAM_RUNTIME_DIR-} ]]; then
  export UZRAM_RUNTIME_DIR=$work/run
fi

clean_up() {
  if mountpoint -q "$mnt"; then umount "$mnt" || umount -l "$mnt"; fi
  if [[ -n $started ]]; then "$uzram" stop "$name" --force || true; fi
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '  %s\n' "$*"; }

# timed COMMAND...: sets took_ms to the milliseconds that it took.
timed() {
  local start
  start=$(date +%s%N)
  "$@"
  took_ms=$((($(date +%s%N) - start) / 1000000 + 1))
}

mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b ? a / b : 0 }'; }
rate() { awk -v bytes="$1" -v ms="$2" 'BEGIN { printf "%.0f MiB/s", bytes / 1048.576 / ms }'; }
row() { printf '  %-34s %14s\n' "$1" "$2"; }

# Chooses every n-th file below /usr/lib and /usr/share, so that the sample is mixed and bounded:
# their paths from / in $work/files, their checksums in $work/sums, those of every second one in
# $work/sums.kept and the paths of the others in $work/deleted. The one read of the originals also
# leaves them in memory, so that the figures below are the device's and not the system disk's.
choose_files() {
  {
    (cd / && find usr/lib usr/share -xdev -type f -readable -size -16M ! -path $'*\n*' \
      -printf '%s\t%p\n' 2>/dev/null) || true # what may not be read is left out
  } | LC_ALL=C sort -t $'\t' -k 2 >"$work/all"
  awk -F '\t' -v bytes_max="$data_bytes_max" -v files_max="$files_max" '
    NR == FNR { total += $1; next }
    FNR == 1 {
      by_size = int(total / bytes_max) + 1
      by_count = int((NR - 1) / files_max) + 1
      step = by_size > by_count ? by_size : by_count
    }
    FNR % step == 0 && sum + $1 <= bytes_max {
      sum += $1
      print substr($0, length($1) + 2)
    }
    END { printf "%.0f\n", sum >sum_file }
  ' sum_file="$work/bytes" "$work/all" "$work/all" >"$work/files"
  read -r data_bytes <"$work/bytes"
  file_count=$(wc -l <"$work/files")
  [[ $file_count -gt 1 ]] ||
    { echo "quickstart.sh: no files below /usr/lib and /usr/share" >&2; return 1; }
  awk -v deleted="$work/deleted" 'NR % 2 == 0 { print >deleted }' "$work/files"
  (cd / && xargs -d '\n' b2sum) <"$work/files" >"$work/sums"
  awk 'NR % 2' "$work/sums" >"$work/sums.kept"
}

# The chosen files as a tar on standard output; hard links become files of their own.
pack() { tar -C / --hard-dereference --verbatim-files-from -T "$work/files" -c; }
# Compares the files of a list of checksums with those in the mount, eight at a time; names each
# that differs.
compare() {
  split -n r/8 "$1" "$work/part."
  printf '%s\0' "$work"/part.* | (cd "$mnt" && xargs -0 -P 8 -n 1 b2sum --check --quiet)
}

# start KIND...: starts the device; sets kind and where.
start() {
  started=yes # already now: an interrupt may come before the command returns
  "$uzram" start "$name" --size 1G "$@" >"$work/started" || { started= && return 1; }
  IFS=$'\t' read -r kind where <"$work/started"
}
stop() {
  "$uzram" stop "$name"
  started=
}

# The first columns of the kernel's mm_stat.
sample() { read -r orig_bytes compr_bytes used_bytes _ < <("$uzram" get "$name" mm_stat); }

may_mount() {
  [[ $(id -u) == 0 ]] && mount -t tmpfs none "$mnt" 2>/dev/null && umount "$mnt"
}

remount_cold() {
  umount "$mnt"
  { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || true
  mount -o noatime "$where" "$mnt"
}

copy_in() {
  pack | tar -C "$mnt" -xpf -
  sync -f "$mnt"
}

by_mount() {
  say "ext4 on $where, mounted"
  mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$where"
  mount -o noatime "$where" "$mnt"
  say "copying $file_count files of /usr in"
  timed copy_in
  write_ms=$took_ms
  remount_cold
  say "comparing every file"
  timed compare "$work/sums"
  read_ms=$took_ms
  sample
  full=("$orig_bytes" "$compr_bytes" "$used_bytes")
  say "deleting every second file, trimming, comparing the others"
  (cd "$mnt" && xargs -d '\n' rm -f <"$work/deleted")
  sync -f "$mnt"
  fstrim "$mnt"
  remount_cold
  compare "$work/sums.kept"
  sample
  umount "$mnt"
}

copy_in_nbd() { nbdcopy --flush "$work/tar" "$where"; }
copy_out_nbd() { nbdcopy "$where" null:; }
# The device from byte $1 on equals the tar from there. The rest of the device is read too, so that
# nbdcopy does not meet a closed pipe.
compare_nbd() {
  nbdcopy "$where" - | {
    tail -c +$(($1 + 1)) | { cmp -n $((data_bytes - $1)) - <(tail -c +$(($1 + 1)) "$work/tar") &&
      cat >/dev/null; }
  }
}

by_nbd() {
  say "nbdcopy to $where"
  # The tar is what is stored, so its size is what the figures speak of.
  pack >"$work/tar"
  data_bytes=$(stat -c %s "$work/tar")
  say "copying a tar of $file_count files of /usr in"
  timed copy_in_nbd
  write_ms=$took_ms
  timed copy_out_nbd
  read_ms=$took_ms
  say "comparing every byte"
  compare_nbd 0
  sample
  full=("$orig_bytes" "$compr_bytes" "$used_bytes")
  say "trimming the first half, comparing the other"
  local half=$((data_bytes / 2 / 4096 * 4096))
  # nbdsh runs the first python3 on the path; the module belongs to the system's.
  PATH=/usr/bin:/bin nbdsh -u "$where" -c "h.trim($half, 0)" -c "h.flush()"
  compare_nbd "$half"
  sample
}

echo "uzram quickstart: 1 GiB zram device $name"
choose_files
if [[ $mode == mount ]] && ! may_mount; then
  say "no right to mount here: the same job over NBD"
  mode=nbd
fi
if [[ $mode == mount ]]; then
  start --attach auto
  if [[ ! -b $where ]]; then
    say "this kernel gives no block device here ($kind at $where): the same job over NBD"
    stop
    mode=nbd
  fi
fi
if [[ $mode == nbd ]]; then
  start --nbd auto
  by_nbd
else
  by_mount
fi

echo
row "attachment" "$kind"
row "data copied in" "$(mib "$data_bytes")"
row "stored pages" "$(mib "${full[0]}")"
row "compressed to" "$(mib "${full[1]}")"
row "memory used" "$(mib "${full[2]}")"
row "stored / memory used" "$(ratio "${full[0]}" "${full[2]}")"
row "copying in, to the flush" "$(rate "$data_bytes" "$write_ms")"
row "reading back" "$(rate "$data_bytes" "$read_ms")"
row "memory used after the trim" "$(mib "$used_bytes")"
echo
stop
echo "all equal; device stopped, nothing left behind"
