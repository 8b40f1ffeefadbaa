# For scenarios against serve_fixture: starts it, and says what was expected when something else came.

# start_fixture [FOLDER]: sets $kubeconfig and $talosconfig once it serves. The runner ends it with the scenario.
start_fixture() {
  local folder=${1:-$PEER_FOLDER} line
  exec {fixture}< <(exec "$PEER_BUILD/peers/serve_fixture" "$folder" 127.0.0.1)
  while read -r -t 20 -u "$fixture" line; do
    [ "$line" != ready ] || { kubeconfig=$folder/kubeconfig talosconfig=$folder/talosconfig; return 0; }
  done
  echo "serve_fixture did not get ready"
  return 1
}

# expect PATTERN COMMAND…: it succeeds and prints something that matches.
expect() {
  local pattern=$1 output code=0
  shift
  output=$("$@" 2>&1) || code=$?
  printf '$ %s\n%s\n' "$*" "$output"
  [ $code = 0 ] || { echo "expected success, got exit code $code"; return 1; }
  grep -qE -- "$pattern" <<<"$output" || { echo "expected: $pattern"; return 1; }
}

# refuse PATTERN COMMAND…: it fails, and with this reason.
refuse() {
  local pattern=$1 output code=0
  shift
  output=$("$@" 2>&1) || code=$?
  printf '$ %s\n%s\n' "$*" "$output"
  [ $code != 0 ] || { echo "expected a refusal, but it succeeded"; return 1; }
  grep -qE -- "$pattern" <<<"$output" || { echo "expected a refusal with: $pattern"; return 1; }
}
