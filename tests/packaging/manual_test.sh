#!/usr/bin/env bash
# The manual page tells of every attribute that the program has, and is sound to man.
#
#   manual_test.sh UZRAM PAGE
set -euo pipefail

uzram=$1 page=$2

die() {
  echo "FAILED: $*" >&2
  exit 1
}

for command in get set; do
  names=$("$uzram" "$command" --help | sed -n '/^ATTR /,/^$/p' | sed '1d;$d' | cut -d' ' -f1)
  [[ $(wc -w <<<"$names") -gt 4 ]] || die "uzram $command --help lists no attributes"
  for name in $names; do
    grep -qxF ".B $name" "$page" || die "$page does not tell of $name: it is out of step"
  done
done

if ! command -v man >/dev/null || ! command -v groff >/dev/null; then
  echo "SKIPPED: needs man and groff"
  exit 77
fi
warnings=$(MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$page" 2>&1 >/dev/null)
[[ -z $warnings ]] || die "man finds fault with $page: $warnings"
