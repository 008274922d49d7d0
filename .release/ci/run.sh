#!/bin/sh
# Installs KindLM in CI, runs a suite, and comments on the pull request or merge request.
#
#   run.sh install   downloads the binary, checks its digest, and puts it into $KINDLM_CI_BIN
#   run.sh test      runs the suite, writes the reports, and exits with the code of `kindlm test`
#   run.sh comment   writes the report as a comment; a later run updates the same comment
#
# `action.yml` (GitHub) and `.release/gitlab/templates/kindlm.yml` (GitLab) call it. Settings come as variables:
#
#   KINDLM_CI_VERSION      version to install                     (the version of this checkout)
#   KINDLM_CI_SHA256       digest of the archive                  (read from the `.sha256` file of the release)
#   KINDLM_CI_ATTESTATION  `true`: also check the attestation     (false; needs `gh`)
#   KINDLM_CI_DOWNLOAD     folder of the releases, as a URL       (GitHub releases)
#   KINDLM_CI_BIN          folder of the binary                   (below $RUNNER_TEMP or /tmp)
#   KINDLM_CI_CONFIG       the suite                              (kindlm.yaml)
#   KINDLM_CI_ARGS         more arguments, separated by spaces; with several lines: one argument a line
#   KINDLM_CI_REPORTS      folder of the reports                  (kindlm-report)
#   KINDLM_CI_ARTIFACT     name of the artifact, for messages     (kindlm-report)
#   KINDLM_CI_REQUEST      number of the pull request or merge request
#   KINDLM_CI_FORK         `true`: it comes from a fork
#   KINDLM_CI_TOKEN        token that may write comments
#   KINDLM_CI_AUTHOR       GitHub account of that token           (github-actions[bot])
set -eu

releases=${KINDLM_CI_DOWNLOAD:-https://github.com/kindlm/kindlm/releases/download}
reports=${KINDLM_CI_REPORTS:-kindlm-report}
artifact=${KINDLM_CI_ARTIFACT:-kindlm-report}

on_github() { [ "${GITHUB_ACTIONS:-}" = true ]; }

# Prints a message: `say notice|warning|error TEXT`. GitHub shows it as an annotation.
# It goes to stderr, because the stdout of some functions is captured.
say() {
  if on_github; then
    # A line break or a percent sign would end or change the command.
    printf '::%s title=KindLM::%s\n' "$1" "$(printf '%s' "$2" | tr '\r\n' '  ' | sed 's/%/%25/g')"
  else
    printf 'kindlm: %s: %s\n' "$1" "$2"
  fi >&2
}

fail() {
  say error "$1"
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# --- install ---

version() {
  if [ -n "${KINDLM_CI_VERSION:-}" ]; then
    printf '%s\n' "${KINDLM_CI_VERSION#v}"
  else
    sed -n 's/^version = "\(.*\)"$/\1/p' "$(dirname "$0")/../../Cargo.toml" | head -n 1
  fi
}

# Prints the target triple of this machine.
target() {
  case $(uname -m) in
    x86_64 | amd64) cpu=x86_64 ;;
    aarch64 | arm64) cpu=aarch64 ;;
    *) fail "no binary for the processor $(uname -m); build it with cargo" ;;
  esac
  case $(uname -s) in
    Linux) echo "$cpu-unknown-linux-$(libc)" ;;
    Darwin) echo "$cpu-apple-darwin" ;;
    MINGW* | MSYS* | CYGWIN*) echo "x86_64-pc-windows-msvc" ;;
    *) fail "no binary for $(uname -s); build it with cargo" ;;
  esac
}

# The gnu binary needs glibc 2.35. The musl binary is static and runs everywhere.
libc() {
  found=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9][0-9]*\).*/\1/p')
  if [ "${found:-0}" -ge 35 ]; then echo gnu; else echo musl; fi
}

# Downloads a file: `fetch URL FILE`.
fetch() {
  if has curl; then
    curl --fail --silent --show-error --location --retry 3 --output "$2" "$1"
  elif has wget; then
    wget -q -O "$2" "$1"
  else
    fail "install needs \`curl\` or \`wget\`"
  fi || fail "cannot download $1"
}

digest() {
  if has sha256sum; then
    sha256sum <"$1"
  elif has shasum; then
    shasum -a 256 <"$1"
  elif has openssl; then
    openssl dgst -sha256 -r <"$1"
  else
    fail "install needs \`sha256sum\`, \`shasum\` or \`openssl\`"
  fi | cut -d ' ' -f 1
}

install() {
  version=$(version)
  if [ -z "${KINDLM_CI_SHA256:-}" ] && [ "$(kindlm --version 2>/dev/null)" = "kindlm $version" ]; then
    echo "kindlm $version is installed already"
    return
  fi
  target=$(target)
  case $target in
    *windows*) archive=kindlm-cli-$target.zip ;;
    *) archive=kindlm-cli-$target.tar.gz ;;
  esac
  bin=${KINDLM_CI_BIN:-${RUNNER_TEMP:-${TMPDIR:-/tmp}}/kindlm-$version}
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT

  fetch "$releases/v$version/$archive" "$work/$archive"
  expected=${KINDLM_CI_SHA256:-}
  if [ -z "$expected" ]; then
    fetch "$releases/v$version/$archive.sha256" "$work/sha256"
    expected=$(cut -d ' ' -f 1 <"$work/sha256")
  fi
  found=$(digest "$work/$archive")
  if [ "$found" != "$expected" ]; then
    fail "wrong checksum of $archive: expected $expected, got $found; nothing was installed"
  fi
  if [ "${KINDLM_CI_ATTESTATION:-false}" = true ]; then
    gh attestation verify "$work/$archive" --repo kindlm/kindlm \
      || fail "cannot verify the attestation of $archive; nothing was installed"
  fi

  mkdir -p "$bin" "$work/unpacked"
  case $archive in
    *.zip) unzip -q "$work/$archive" -d "$work/unpacked" ;;
    *) tar -xzf "$work/$archive" -C "$work/unpacked" ;;
  esac
  # A tar archive of dist has a folder, a zip archive has none.
  for file in "$work"/unpacked/kindlm "$work"/unpacked/kindlm.exe "$work"/unpacked/*/kindlm; do
    if [ -f "$file" ]; then cp "$file" "$bin/"; fi
  done
  "$bin/kindlm" --version || fail "the binary for $target does not run on this machine"
  if [ -n "${GITHUB_PATH:-}" ]; then
    # GitHub on Windows expects a path of Windows.
    if has cygpath; then cygpath -w "$bin"; else printf '%s\n' "$bin"; fi >>"$GITHUB_PATH"
  fi
}

# --- test ---

run_suite() {
  if [ -n "${KINDLM_CI_BIN:-}" ]; then PATH=$KINDLM_CI_BIN:$PATH; fi
  mkdir -p "$reports"
  # A comment must not show the report of an earlier run.
  rm -f "$reports/comment.md" "$reports/annotations.txt"
  set -- test --config "${KINDLM_CI_CONFIG:-kindlm.yaml}" --reporter pretty \
    --reporter "markdown=$reports/comment.md" --reporter "junit=$reports/junit.xml" \
    --reporter "html=$reports/report.html" --reporter "json=$reports/report.json"
  if on_github && kindlm explain reporters | grep -q '^github '; then
    set -- "$@" --reporter "github=$reports/annotations.txt"
  fi
  if [ "${GITLAB_CI:-}" = true ]; then
    set -- "$@" --reporter "gitlab=$reports/gl-code-quality-report.json"
  fi
  # Without `-f`, the shell would replace `*` in an argument by file names.
  set -f
  case ${KINDLM_CI_ARGS:-} in
    *'
'*) IFS='
' ;;
  esac
  # shellcheck disable=SC2086 # The split is intended.
  set -- "$@" ${KINDLM_CI_ARGS:-}
  unset IFS
  set +f

  status=0
  kindlm "$@" || status=$?

  if [ -f "$reports/annotations.txt" ]; then cat "$reports/annotations.txt"; fi
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$reports/comment.md" ]; then
    cat "$reports/comment.md" >>"$GITHUB_STEP_SUMMARY"
  fi
  if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'exit-code=%s\nreports=%s\n' "$status" "$reports" >>"$GITHUB_OUTPUT"
  fi
  exit "$status"
}

# --- comment ---

no_comment() {
  place="the artifact \"$artifact\""
  if on_github; then place="$place and in the job summary"; fi
  say notice "no comment: $1; the report is in $place"
  exit 0
}

# Sends a request: `api METHOD URL [BODY-FILE]`. Sets `code`; the answer is in $work/answer.
api() {
  # A repeated POST could write a second comment.
  if [ "$1" = POST ]; then tries=0; else tries=3; fi
  # The token goes through stdin, because other processes can see arguments.
  code=$(
    printf 'header = "%s: %s"\n' "$auth" "$secret" | curl --config - --silent --show-error --retry "$tries" \
      --request "$1" --header 'Content-Type: application/json' ${3:+--data "@$3"} \
      --output "$work/answer" --write-out '%{http_code}' "$2"
  ) || code=000
  case $code in
    2??) ;;
    401 | 403 | 404) no_comment "the token may not write comments here (status $code), as in a pull request from a fork" ;;
    *)
      say warning "cannot write the comment: $1 $2 answered with status $code; the report is in the artifact \"$artifact\""
      exit 0
      ;;
  esac
}

comment() {
  file=$reports/comment.md
  if [ ! -s "$file" ]; then
    say notice "no comment: the run wrote no report"
    exit 0
  fi
  token=${KINDLM_CI_TOKEN:-}
  if on_github; then
    request=${KINDLM_CI_REQUEST:-}
    url=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/$request/comments
    each=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments
    auth=Authorization secret="Bearer $token" update=PATCH
  else
    request=${KINDLM_CI_REQUEST:-${CI_MERGE_REQUEST_IID:-}}
    url=${CI_API_V4_URL:-}/projects/${CI_MERGE_REQUEST_PROJECT_ID:-${CI_PROJECT_ID:-}}/merge_requests/$request/notes
    each=$url
    auth=PRIVATE-TOKEN secret=$token update=PUT
  fi
  if [ -z "$request" ]; then
    say notice "no comment: this is not a run of a pull request or merge request"
    exit 0
  fi
  if [ "${KINDLM_CI_FORK:-false}" = true ]; then
    no_comment "the pull request comes from a fork, so the token may not write comments"
  fi
  if [ -z "$token" ]; then no_comment "no token that may write comments"; fi
  if ! has curl || ! has jq; then no_comment "\`curl\` and \`jq\` are not both installed"; fi

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if on_github; then
    author=${KINDLM_CI_AUTHOR:-github-actions[bot]}
  else
    api GET "$CI_API_V4_URL/user"
    author=$(jq -r .username "$work/answer")
  fi
  # The first line is a hidden marker with the names of project and suite. Anybody can write the marker, so only
  # comments of the token's own account count.
  marker=$(head -n 1 "$file")
  page=1
  id=
  while [ -z "$id" ]; do
    api GET "$url?per_page=100&page=$page"
    id=$(
      jq -r --arg marker "$marker" --arg author "$author" \
        '[.[] | select((.user // .author | .login // .username) == $author and (.body | startswith($marker))) | .id] | first // empty' \
        "$work/answer"
    )
    if [ "$(jq length "$work/answer")" -lt 100 ]; then break; fi
    page=$((page + 1))
  done
  jq -n --rawfile body "$file" '{ body: $body }' >"$work/body"
  if [ -n "$id" ]; then
    api "$update" "$each/$id" "$work/body"
    echo "updated comment $id"
  else
    api POST "$url" "$work/body"
    echo "wrote a comment"
  fi
}

case ${1:-} in
  install) install ;;
  test) run_suite ;;
  comment) comment ;;
  *) fail "usage: run.sh install | test | comment" ;;
esac
