#!/usr/bin/env bash
# Builds uzram; the release lands in build/release/uzram.
#
#   scripts/build.sh [--tests] [PRESET]
#
# PRESET is one of CMakePresets.json: release (the default), asan, tsan, no-lzo.
# Installs the Debian packages that are missing. ccache is used where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=OFF
deps=()
if [[ ${1-} == --tests ]]; then
  tests=ON
  deps=(--test)
  shift
fi
preset=${1-release}

scripts/install-deps.sh "${deps[@]}"
if command -v ccache >/dev/null; then
  # Paths relative to the tree, so that clones of it share what was compiled.
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
cmake --preset "$preset" -DUZRAM_TESTS="$tests" >/dev/null
cmake --build "build/$preset"
