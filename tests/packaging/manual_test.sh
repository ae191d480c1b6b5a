#!/usr/bin/env bash
# The manual pages tell of every attribute, subcommand and option that the program has, and are sound
# to man.
#
#   manual_test.sh UZRAM ATTRIBUTES_PAGE COMMAND_PAGE
set -euo pipefail

uzram=$1 page=$2 command_page=$3

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

# section COMMAND: what the page tells of it.
section() { awk -v head=".SS \\\\fBuzram $1\\\\fR" '/^\.S[SH]/ { on = index($0, head) == 1 } on' "$command_page"; }

commands=$("$uzram" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z][a-z]*\) .*/\1/p')
[[ $(wc -w <<<"$commands") -gt 10 ]] || die "uzram --help lists no subcommands"
for command in $commands; do
  text=$(section "$command")
  [[ -n $text ]] || die "$command_page does not tell of uzram $command"
  options=$("$uzram" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
  for option in $options; do
    grep -qF "\\fB${option//-/\\-}\\fR" <<<"$text" ||
      die "$command_page does not tell of uzram $command $option"
  done
done
grep -qF '\fB\-\-backing\fR \fIPATH|URI\fR' <<<"$(section start)" || die "$command_page: no --backing PATH|URI"

if ! command -v man >/dev/null || ! command -v groff >/dev/null; then
  echo "SKIPPED: needs man and groff"
  exit 77
fi
for each in "$page" "$command_page"; do
  warnings=$(MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$each" 2>&1 >/dev/null)
  [[ -z $warnings ]] || die "man finds fault with $each: $warnings"
done
