#!/usr/bin/env bash
# Installs what is missing, builds the release, runs every test and check; ends with CTest's summary
# and its status.
#
#   scripts/test.sh [CTEST OPTIONS]    for instance: scripts/test.sh -L unit
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh --tests release
exec ctest --test-dir build/release --output-on-failure --no-tests=error "$@"
