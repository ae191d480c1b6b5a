#!/usr/bin/env bash
# Installs the Debian packages that uzram needs, and only those that are missing.
#
#   scripts/install-deps.sh           to build uzram and to run scripts/quickstart.sh
#   scripts/install-deps.sh --test    to build and run the tests and checks too
#
# Needs root or sudo only where something is missing.
set -euo pipefail

die() {
  echo "install-deps.sh: $*" >&2
  exit 1
}

# Compiler, build tools, libraries; then what mounts a device and copies to one.
packages=(
  g++ cmake ninja-build pkg-config
  liblz4-dev liblzo2-dev libzstd-dev libdeflate-dev
  liburing-dev libnbd-dev libxxhash-dev libexpected-dev libfuse3-dev libcli11-dev
  nlohmann-json3-dev libspdlog-dev
  fuse3 e2fsprogs mount util-linux libnbd-bin python3-libnbd
)
# Second compiler with its sanitizers, test framework, clients and file systems of the tests.
test_packages=(
  clang clang-format libclang-rt-14-dev
  libgtest-dev
  python3 qemu-utils nbdkit fio xfsprogs btrfs-progs
)

case "${1-}" in
  '') ;;
  --test) packages+=("${test_packages[@]}") ;;
  *)
    echo "usage: install-deps.sh [--test]" >&2
    exit 2
    ;;
esac

command -v dpkg-query >/dev/null ||
  die "not a Debian system: install what stands for these by hand: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
  [[ $state == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || die "needs root to install: ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@" </dev/null
}
echo "install-deps.sh: installing ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"
