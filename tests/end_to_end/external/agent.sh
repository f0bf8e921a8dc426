#!/bin/sh
# A fake agent: a shell script that uses curl. `$1` selects its behavior.
mode=$1
messages="{\"role\":\"user\",\"content\":$(cat "$HOME/prompt.json")}"
tools='[{"type":"function","function":{"name":"shell","description":"d","parameters":{"type":"object","properties":{"command":{"type":"string"}}}}}]'

# Sends one request. Sets $status, and writes the response to $HOME/answer.
ask() {
    printf '{"model":"%s","messages":[%s],"tools":%s}' "$MODEL" "$messages" "$tools" >"$HOME/body"
    # curl omits a header that has no value, so only requests from a sub-agent contain x-agent-id.
    status=$(curl -sS -o "$HOME/answer" -w '%{http_code}' -H "authorization: Bearer $TOKEN" \
        -H "x-agent-id: $agent" -H 'content-type: application/json' -d "@$HOME/body" "$ENDPOINT/v1/chat/completions")
}

# Runs the command in the response. Fails if the response contains no command.
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
# Prints the model's response.
says) ask; cat "$HOME/answer" ;;
# Stops after one request if the repository contains settings for this agent. Fails unless AGENTS.md contains KNOWN.
heeds)
    [ -e .my-cli.json ] || [ -e .my-cli/hooks/pre.sh ] && { ask; exit 0; }
    grep -q KNOWN AGENTS.md || exit 9
    solve
    ;;
# The second argument is the prompt, or mentions the path of the file that contains the prompt.
told)
    if [ -f "$HOME/prompt.md" ]; then
        [ "$(wc -c <"$HOME/prompt.md")" -gt 200000 ] || exit 8
        case $2 in *"$HOME/prompt.md"*) ;; *) exit 9 ;; esac
    else
        case $2 in *"<task>"*) ;; *) exit 10 ;; esac
    fi
    solve
    ;;
# Writes a long line, without a line feed at its end, to standard error.
noisy) head -c 100000 /dev/zero | tr '\0' x >&2; solve ;;
# A sub-agent sends a request after each of the main agent's responses.
helps) while ask && [ "$status" = 200 ] && act; do agent=h1; ask; agent=; done ;;
empty) ask ;;
# Runs tools for longer than the idle limit.
works) ask; act; for i in 1 2 3 4 5 6; do sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; done; solve ;;
# Leaves a process running in a separate session.
daemon) setsid sh -c 'sleep 1000' & solve ;;
# Always exits with status 0.
shrugs) solve || true; exit 0 ;;
# Continues to send requests after a rejection, changes the tree, and ignores signals.
stubborn)
    trap '' TERM INT HUP
    while ask && [ "$status" = 200 ] && act; do :; done
    echo late >/testbed/late.txt
    while :; do ask; sleep 0.1; done
    ;;
# Requests one stream and exits with an error, without printing the error from the endpoint.
streams) tools="$tools,\"stream\":true"; ask; exit 5 ;;
# Retries forever after a rejection.
asks_on) while :; do ask; done ;;
esac
