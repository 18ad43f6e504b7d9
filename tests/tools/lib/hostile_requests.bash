# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What no one may get from `ui`, after serving.bash and `serve`: requests that a page of another site, a
# guesser or a broken client sends, clients that are slow, more pages than it holds, and another user.
# shellcheck disable=SC2154  # work, shardsweep: of lib.bash; address, server: of serving.bash

# told [WORD]: what was got holds results, or the word.
told() { [ -e "$work/got" ] && grep -aqE "<td|root:x|completed|tokens/s${1:+|$1}" "$work/got"; }

hostile=0
# refused CODES CURL-WORD…: one of these codes, and nothing of the sweep.
refused() {
  local codes=$1 got
  shift
  hostile=$((hostile + 1))
  rm -f "$work/got"
  got=$(curl -s --max-time 60 --path-as-is -o "$work/got" -w '%{http_code}' "$@") || true
  [[ " $codes " == *" $got "* ]] || fail "$got and not $codes: curl $(printf '%q ' "${@:1:12}" | cut -c1-300)"
  # A page that has nothing says what was asked.
  if [[ $got == 404 || $got == 200 ]]; then set -- '' "$@"; else set -- "$sweep" "$@"; fi
  ! told "$1" || fail "told: curl ${*:2}"
}
# raw CODE TEXT: what curl does not send; one answer, whatever else the text asks.
raw() {
  local odd
  hostile=$((hostile + 1))
  exec {odd}<>"/dev/tcp/127.0.0.1/$port"
  # shellcheck disable=SC2059
  printf "$2" >&$odd
  cat <&$odd >"$work/got" || true
  exec {odd}>&-
  head -n 1 "$work/got" | grep -a "^HTTP/1.1 $1 " >/dev/null || fail "not $1: $2: $(head -c 500 "$work/got")"
  [ "$(grep -ac '^HTTP/1.1 ' "$work/got")" = 1 ] || fail "more than one answer: $2"
  ! told "$sweep" || fail "told: $2"
}

# parts_of_address: its `host` with the port, `port`, `token`, and `root`, the address without its token.
parts_of_address() {
  host=${address#http://}
  host=${host%%/*}
  port=${host#*:}
  root=http://$host
  token=${address%/}
  token=${token##*/}
}

# hostile_requests SWEEP: each gets its refusal.
hostile_requests() {
  local sweep=$1 host port root token name trial
  parts_of_address
  without_token
  from_elsewhere
  other_methods
  other_files
  large_requests
  malformed_requests
  # What stands in a name is text.
  curl -s "${address}trial?name=%3Cscript%3Ealert(1)%3C/script%3E" >"$work/got"
  ! grep -q '<script>alert' "$work/got" || fail 'a name became a script'
  curl -sf "${address}" | grep -F "$sweep" >/dev/null || fail 'its user gets nothing any more'
  echo "ui: $hostile hostile requests got nothing"
}

without_token() {
  refused 403 "$root/"
  refused 403 "$root/favicon.ico"
  refused 403 "$root/report?name=$sweep"
  refused 403 "$root/${token%?}/"
  refused 403 "$root/${token}0/"
  refused 403 "$root/${token^^}/"
  refused 403 "$root//$token/"
  refused 403 "$root/%2f$token/"
  refused 403 "$root/%2e%2e/$token/"
  refused 403 "$root/../$token/"
  refused 403 "$root/?token=$token"
  refused 403 -H "Cookie: token=$token" "$root/"
  refused 403 -H "Authorization: token $token" "$root/"
  refused 403 "$root/events?seen=0"
  refused 403 -X POST -d '{}' "$root/ask"
  refused 404 "$root/$token"
}

from_elsewhere() {
  for name in evil.example "evil.example:$port" 127.0.0.1.evil.example localhost.evil.example 'localhost@evil.example' \
    0.0.0.0 2130706433 '[::1]'; do
    refused 421 -H "Host: $name" "$address"
  done
  refused 421 -H 'Host:' "$address"
  refused 403 -H 'Origin: http://evil.example' "$address"
  refused 403 -H 'Origin: null' "$address"
  refused 403 -H "Origin: https://$host" "$address"
  refused 403 -H 'Origin: http://127.0.0.1:1' "$address"
  refused 403 -H 'Sec-Fetch-Site: cross-site' "$address"
  refused 403 -H 'Sec-Fetch-Site: same-site' -H 'Sec-Fetch-Mode: cors' "${address}events?seen=0"
  refused 403 -X POST -H 'Sec-Fetch-Site: cross-site' -H 'Sec-Fetch-Mode: navigate' -d '{}' "${address}ask"
  refused 403 -X POST -H 'Origin: http://evil.example' -d '{}' "${address}ask"
  refused '400 403' --request-target "http://evil.example/$token/" "$address"
  # A page of another site may open a WebSocket without asking first.
  refused 403 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
    -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' -H 'Origin: http://evil.example' "${address}events?seen=0"
  refused 403 -H 'Connection: Upgrade' -H 'Upgrade: h2c' -H 'HTTP2-Settings: AAMAAABk' "$root/"
}

other_methods() {
  for name in POST PUT DELETE PATCH OPTIONS TRACE PROPFIND get; do
    refused 405 -X "$name" "${address}report?name=$sweep"
  done
  refused 400 -X CONNECT --request-target "$host" "$address"
}

other_files() {
  refused 404 "$address../"
  refused 404 "$address../../etc/passwd"
  refused 404 "$address%2e%2e/%2e%2e/etc/passwd"
  refused 404 "$address..%2f..%2fetc%2fpasswd"
  refused 404 "$address..%5c..%5cetc%5cpasswd"
  refused 404 "$address%c0%ae%c0%ae/etc/passwd"
  refused 404 "$address%00"
  refused 404 "${address}report%00.html?name=$sweep"
  refused 404 "${address}report/../../../etc/passwd"
  refused 404 "${address}nothing"
  refused 404 "${address}log?name=../../etc/passwd"
  trial=$(sql "SELECT trial FROM results WHERE sweep = '$sweep' AND outcome IS NOT NULL LIMIT 1")
  # Such a page says which files there are.
  refused 200 "${address}log?name=$sweep/$trial.1&file=../../../../../../../../etc/passwd"
  refused 200 "${address}log?name=$sweep/$trial.1&file=/etc/passwd"
  refused 404 "${address}log"
  refused 404 "${address}report?name=/etc/passwd"
  refused 404 "${address}trial?name=--db=/etc/passwd"
  refused 404 "${address}trial?name=%27%20OR%201%3D1--"
  refused 400 "${address}trial?name=a%00b"
  refused 400 "${address}trial?name=%zz"
  refused 400 "${address}trial?name=a&name=b"
}

large_requests() {
  head -c 60000 /dev/zero | tr '\0' 'a' >"$work/long"
  refused 431 -H "X: $(cat "$work/long")" "$address"
  refused 431 "$address?a=$(cat "$work/long")"
  for name in $(seq 2000); do echo "X-$name: $name"; done >"$work/headers"
  refused 431 -H "@$work/headers" "$address"
  head -c 6000000 /dev/zero >"$work/large"
  refused '413 000' -X POST --data-binary "@$work/large" -H 'Expect:' "${address}ask"
}

malformed_requests() {
  local to="GET /$token/ HTTP/1.1\r\nHost: localhost\r\n" post="POST /$token/ask HTTP/1.1\r\nHost: localhost\r\n"
  raw 400 '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n'
  raw 400 "GET /$token/ HTTP/9.9\r\nHost: localhost\r\n\r\n"
  raw 400 "GET /$token/\r\n\r\n"
  raw 400 "GET /$token/\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n"
  raw 400 "GET /$token/report?name=\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n"
  raw 400 "${to}Host : localhost\r\n\r\n"
  raw 400 "${to}no colon\r\n\r\n"
  raw 400 "${to}X: a\x00b\r\n\r\n"
  raw 421 "${to}Host: evil.example\r\n\r\n"
  raw 421 "GET /$token/ HTTP/1.0\r\n\r\n"
  raw 403 "${to}Origin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n"
  # A second request in the body or behind the first: who takes these lengths otherwise reads it.
  raw 400 "${post}Content-Length: -1\r\n\r\n"
  raw 400 "${post}Content-Length: 4\r\nContent-Length: 40\r\n\r\n{}\r\n$to\r\n"
  raw 400 "${post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n$to\r\n"
  raw 400 "${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n"
  raw 403 "GET /x/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200\r\n\r\n$to\r\n"
  raw 403 "GET /x/ HTTP/1.1\r\nHost: localhost\r\n\r\n$to\r\n"
}

# another_user SWEEP: who may do nothing reads neither pages nor files nor the server's memory.
another_user() {
  local sweep=$1 host port root token page file
  local as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  if [ "$(id -u)" != 0 ] || ! "${as[@]}" curl --version >/dev/null 2>&1; then
    echo 'ui: no other user to be had'
    return 0
  fi
  parts_of_address
  # The files' own modes have to do.
  chmod 755 "$work"
  for page in '' "report?name=$sweep" "trials?name=$sweep" 'events?seen=0'; do
    "${as[@]}" curl -s -w '%{http_code}' "$root/$page" >"$work/got"
    [[ $(tail -c 3 "$work/got") == 403 ]] || fail "another user: $page: $(cat "$work/got")"
    ! told "$sweep" || fail "another user was told: $page"
  done
  for file in "/proc/$server/environ" "/proc/$server/maps" "$SHARDSWEEP_DB" "$SHARDSWEEP_DB-wal" "$(daemon_log)"; do
    ! "${as[@]}" head -c 1 "$file" 2>/dev/null | grep -a . >/dev/null || fail "another user reads $file"
  done
  ! "${as[@]}" ls "/proc/$server/fd" "$SHARDSWEEP_DB.d" >"$work/got" 2>/dev/null || fail 'another user lists its files'
  "${as[@]}" cat /proc/[0-9]*/cmdline >"$work/got" 2>/dev/null || true
  ! grep -aqF "$token" "$work/got" || fail 'another user sees the token by ps'
  if "${as[@]}" "$shardsweep" --version >/dev/null 2>&1; then
    ! HOME=$work "${as[@]}" "$shardsweep" results --db "$SHARDSWEEP_DB" >"$work/got" 2>&1 || fail "another user: $(cat "$work/got")"
    ! told "$sweep" || fail "another user was told: $(cat "$work/got")"
  fi
  chmod 700 "$work"
  echo 'ui: another user gets nothing'
}

# slow_clients PAGE: one never ends its header, one says nothing, one takes nothing of its answer.
slow_clients() {
  local host port root token
  parts_of_address
  exec {slow}<>"/dev/tcp/127.0.0.1/$port" {silent}<>"/dev/tcp/127.0.0.1/$port" {lazy}<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET /%s/ HTTP/1.1\r\nHost: localhost\r\nX: ' "$token" >&"$slow"
  printf 'GET /%s/%s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$token" "$1" >&"$lazy"
}
# slow_clients_end: the server ends the two who asked for nothing.
slow_clients_end() {
  cat <&"$slow" >"$work/got" || true
  ! told || fail 'half a request was answered'
  cat <&"$silent" >"$work/got" || true
  [ ! -s "$work/got" ] || fail "who said nothing was answered: $(cat "$work/got")"
  exec {slow}>&- {silent}>&- {lazy}>&-
}

# many_pages PAGE WORDS: 128 pages wait for news, one more is refused, and PAGE is still served; `version`
# is the last of which they were told.
many_pages() {
  local i tabs=()
  for i in $(seq 128); do
    curl -sN "${address}events?seen=0" >"$work/tab.$i" &
    tabs+=($!)
  done
  wait_for '128 pages to be told' all_told
  [ "$(curl -s -o /dev/null -w '%{http_code}' "${address}events?seen=0")" = 503 ] || fail 'one page too many'
  curl -sf "$address$1" | grep "$2" >/dev/null || fail 'who asks beside 128 pages waits'
  # shellcheck disable=SC2034  # for the test
  version=$(sed -n 's/^data: //p' "$work/tab.1" | tail -n 1)
  kill "${tabs[@]}"
  wait "${tabs[@]}" 2>/dev/null || true
}
all_told() { [ "$(grep -l '^event: changed' "$work"/tab.* | wc -l)" = 128 ]; }
