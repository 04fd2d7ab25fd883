# shellcheck shell=bash
# Shared by the scripts of tools/: sourced, never run. Sets strict mode and
# `root`, the top of the source tree.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export root

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# The comment at the top of the calling script is its help text.
show_help() { sed -n '2,${/^#/!q; s/^# \{0,1\}//; p}' "$0"; }

usage_error() {
  printf '%s: %s (try --help)\n' "$(basename "$0")" "$*" >&2
  exit 2
}

have() { command -v "$1" >/dev/null 2>&1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif have sudo; then sudo -- "$@"
  else die "needs root, and sudo is not installed: $*"; fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o DPkg::Lock::Timeout=600 "$@"
}

# Prints those of the named packages that are not installed, one a line.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }') || true
  printf '%s\n' "$@" | grep -vxF -e "${installed:-none}" || true
}

# Installs what is missing and says what; asks no server when nothing is.
install_packages() {
  local missing said
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing: ${missing[*]}"
  apt_get update || say "the package lists could not all be refreshed; going on with what is here"
  if ! said=$(apt_get install -y --no-install-recommends "${missing[@]}" 2>&1); then
    printf '%s\n' "$said" | tail -n 20 >&2
    die "apt-get could not install: ${missing[*]}"
  fi
}

# Waits until sluiced, the process PID, has written to FILE on which port of
# 127.0.0.1 it listens, and prints that; nothing where it ended, or took half a
# minute.
sluiced_port() {
  local file=$1 pid=$2 port i
  for ((i = 0; i < 300; i++)); do
    port=$(sed -n 's/^listening rdma 127\.0\.0\.1:\([0-9]*\) .*/\1/p' "$file")
    if [ -n "$port" ]; then
      say "$port"
      return
    fi
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
}

# Where machines randomise more address bits than g++ 12's and clang 16's
# sanitizers can place their shadow memory around, programs run without: prints
# the words to put before a command.
sanitizer_prefix() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
  if [ "$bits" -gt 28 ] && setarch "$(uname -m)" -R true 2>/dev/null; then
    echo "setarch $(uname -m) -R"
  fi
}
