# shellcheck shell=bash
# Shared by the tests of one program each: sourced, with the test's name. Makes
# `folder`, which goes with the test, as does the process in `pid`; and what
# they say and ask alike.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/lib.sh"
test_name=$1
folder=$(mktemp -d)
pid=
finish() {
  [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

# fail WHY : with the end of what the programs printed, *.out and *.log.
fail() {
  echo "$test_name: $*" >&2
  find "$folder" -maxdepth 1 \( -name '*.out' -o -name '*.log' \) -exec tail -v -n 20 {} + >&2
  exit 1
}
# code COMMAND… : its exit code; what it prints is in bench.out.
code() {
  local code=0
  "$@" > "$folder/bench.out" 2>&1 || code=$?
  echo $code
}
# holds FILE CONDITION : of the JSON in `it`.
holds() {
  python3 -c 'import json, sys
it = json.load(open(sys.argv[1]))
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$folder/$1" "$2" || fail "not so: $2: $(cat "$folder/$1")"
}
