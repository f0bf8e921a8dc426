#!/bin/sh
# A made-up agent: a shell script with curl. `$1` says how it behaves.
mode=$1
messages="{\"role\":\"user\",\"content\":$(cat "$HOME/prompt.json")}"
tools='[{"type":"function","function":{"name":"shell","description":"d","parameters":{"type":"object","properties":{"command":{"type":"string"}}}}}]'

# Asks once: the status is in $status, the answer in $HOME/answer.
ask() {
    printf '{"model":"%s","messages":[%s],"tools":%s}' "$MODEL" "$messages" "$tools" >"$HOME/body"
    # A header without a value is not sent: only a sub-agent has one.
    status=$(curl -sS -o "$HOME/answer" -w '%{http_code}' -H "authorization: Bearer $TOKEN" \
        -H "x-agent-id: $agent" -H 'content-type: application/json' -d "@$HOME/body" "$ENDPOINT/v1/chat/completions")
}

# Runs the answer's command, or fails where it has none.
act() {
    id=$(sed -n 's/.*"tool_calls":\[{"id":"\([^"]*\)".*/\1/p' "$HOME/answer")
    line=$(sed -n 's/.*\\"command\\":\\"\([^"\\]*\)\\".*/\1/p' "$HOME/answer")
    [ -n "$line" ] || return 1
    said=$(sh -c "$line" 2>&1 | tr -d '"\\' | tr '\n' ' ')
    call="{\"id\":\"$id\",\"type\":\"function\",\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"command\\\":\\\"$line\\\"}\"}}"
    messages="$messages,{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[$call]},{\"role\":\"tool\",\"tool_call_id\":\"$id\",\"content\":\"$said\"}"
}

solve() {
    while ask && [ "$status" = 200 ] && act; do :; done
    [ "$status" = 200 ] || { echo "status $status" >&2; exit 3; }
    echo "done"
}

case $mode in
solve) solve ;;
nothing) : ;;
crash) ask; echo "boom" >&2; exit 7 ;;
idle) ask; sleep 1000 ;;
approval) ask; echo "Allow this command? [y/N]" >&2; sleep 1000 ;;
loop) ask; echo "Loop detected" >&2; exit 0 ;;
record) ask; echo '{"type":"error","message":"Too many turns: 3"}'; exit 0 ;;
# It prints what the model says.
says) ask; cat "$HOME/answer" ;;
# Settings in the repository make it do nothing; it needs what AGENTS.md knows.
heeds)
    [ -e .my-cli.json ] || [ -e .my-cli/hooks/pre.sh ] && { ask; exit 0; }
    grep -q KNOWN AGENTS.md || exit 9
    solve
    ;;
# Its prompt is its second argument, or in the file that the argument names.
told)
    if [ -f "$HOME/prompt.md" ]; then
        [ "$(wc -c <"$HOME/prompt.md")" -gt 200000 ] || exit 8
        case $2 in *"$HOME/prompt.md"*) ;; *) exit 9 ;; esac
    else
        case $2 in *"<task>"*) ;; *) exit 10 ;; esac
    fi
    solve
    ;;
# Its standard error is long and has no end of a line.
noisy) head -c 100000 /dev/zero | tr '\0' x >&2; solve ;;
# After each of its own answers a sub-agent asks.
helps) while ask && [ "$status" = 200 ] && act; do agent=h1; ask; agent=; done ;;
empty) ask ;;
# Its tools go on for longer than it may be silent.
works) ask; act; for i in 1 2 3 4 5 6; do sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; done; solve ;;
# It leaves a process of a session of its own behind.
daemon) setsid sh -c 'sleep 1000' & solve ;;
# It ends normally whatever it met.
shrugs) solve || true; exit 0 ;;
# It asks on after a refusal, changes the tree, and cannot be asked to end.
stubborn)
    trap '' TERM INT HUP
    while ask && [ "$status" = 200 ] && act; do :; done
    echo late >/testbed/late.txt
    while :; do ask; sleep 0.1; done
    ;;
# It asks once for a stream and ends with an error, with no other word of the endpoint's.
streams) tools="$tools,\"stream\":true"; ask; exit 5 ;;
# It asks again for ever where the endpoint rejects it.
asks_on) while :; do ask; done ;;
esac
