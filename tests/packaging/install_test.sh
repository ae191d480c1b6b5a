#!/usr/bin/env bash
# Installs a build into an empty folder and uses it as a packager's user would: the program runs,
# each header stands alone, and a program finds the library by pkg-config and works.
#
#   install_test.sh BUILD_DIR CXX CONSUMER_SOURCE
set -euo pipefail

build=$1
cxx=$2
consumer=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "install_test.sh: $*" >&2
  exit 1
}

# Another prefix than the configured one, and a DESTDIR before it: what a package build does.
DESTDIR="$work/root" cmake --install "$build" --prefix /opt/uzram >"$work/log" ||
  fail "cmake --install: $(cat "$work/log")"
prefix=$work/root/opt/uzram
(cd "$work/root" && find . -type f | sort) >"$work/files"
cat "$work/files"

"$prefix/bin/uzram" --help | grep -q start || fail "bin/uzram --help does not name its subcommands"

pc=$(find "$prefix" -name uzram.pc)
[[ -n $pc ]] || fail "uzram.pc is not installed"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
read -ra flags < <(pkg-config --cflags --libs --static uzram)
read -ra cflags < <(pkg-config --cflags uzram)

for header in "$prefix"/include/uzram/*.h; do
  echo "#include <uzram/$(basename "$header")>" >"$work/header.cc"
  "$cxx" -std=c++20 -Wall -Wextra -Werror -fsyntax-only "$work/header.cc" "${cflags[@]}" ||
    fail "$(basename "$header") does not stand alone"
done

"$cxx" -std=c++20 -Wall -Wextra -Werror "$consumer" -o "$work/consumer" "${flags[@]}"
"$work/consumer"

# Nothing but these: the program and its manual pages, the library, its headers and the two files that
# describe it.
if grep -vE '/(bin/uzram|lib/([^/]+/)?(libuzram\.a|pkgconfig/uzram\.pc))$' "$work/files" |
  grep -vE '/(include/uzram/[a-z_]+\.h|share/doc/uzram/LICENSE|share/man/man(1/uzram\.1|7/uzram-attributes\.7))$'; then
  fail "installs more than it should"
fi
