# What the agent does on a vCPU with a budget of 2 ms in 5 ms, which may ask for 80 % of its core, of which another VM
# has 30 %: started by hanok.test=agent-budget. What the agent says is held against what the hypervisor says, by
# busybox' devmem, which knows nothing of either.
failed=0
fail() { echo "FAIL $*"; failed=1; }
policy() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f39; }

base=0x90c00
put() { devmem "${base}$1" 32 "$2"; }
get() { printf '%d' "$(devmem "${base}$1" 32)"; }
# call FUNCTION ARGUMENT...: the status of a call, and the lower half of its value.
call() {
    function=$1
    shift
    place=16
    for argument in "$@" 0 0; do
        [ $place -gt 40 ] || put "$(printf '%02x' $place)" "$argument"
        place=$((place + 8))
    done
    put 04 "$function"
    status=$(get 30)
    [ "$status" -lt 2147483648 ] || status=$((status - 4294967296))
    echo "$status $(get 38)"
}
item() { call 0xc6000011 "$1"; }
# ask PERIOD BUDGET: asks until there is an answer.
ask() {
    while answer=$(call 0xc6000012 "$1" "$2"); do
        case $answer in -6\ * | -5\ *) ;; *) break ;; esac
    done
    echo "$answer"
}
# has BUDGET: whether the vCPU has this one, by the hypervisor; that is rounded to ticks of 16 ns.
has() {
    set -- "$1" $(item 1)
    [ "$2" = 0 ] && [ "$3" -ge "$1" ] && [ "$3" -lt $(($1 + 1000)) ]
}
# budget: what the agent says, in nanoseconds.
budget() {
    told=$(hanok-agent status | sed -n 's/.* budget=\([^ ]*\) .*/\1/p')
    case $told in
    *ms) echo $((${told%ms} * 1000000)) ;;
    *us) echo $((${told%us} * 1000)) ;;
    *ns) echo "${told%ns}" ;;
    esac
}

[ "$(item 0)" = "0 5000000" ] && [ "$(item 1)" = "0 2000000" ] || fail "read $(item 0), $(item 1)"
[ "$(item 8)" = "0 52428" ] || fail "limit $(item 8)"
hanok-agent status | grep -q "kind=asks budget=2ms period=5ms tasks=0" || fail "$(hanok-agent status)"

# A program becomes a task, and its vCPU has the budget for it.
tail -f /etc/hostname >/dev/null &
first=$!
tail -f /etc/hostname >/dev/null &
second=$!
hanok-agent add --pid $first --period 20ms --execution 3ms --name first || fail "add first"
small=$(budget)
hanok-agent add --pid $second --period 40ms --execution 12ms --name second || fail "add second"
large=$(budget)
hanok-agent status
[ "$small" -lt 2000000 ] && [ "$large" -gt 2000000 ] || fail "budgets $small, $large"
has "$large" || fail "the hypervisor has $(item 1), the agent $large"
sleep 1.2
[ "$(policy $first)$(policy $second)" = 66 ] && echo "ok declared" || fail "policies $(policy $first) $(policy $second)"

# What does not fit is refused with its reason, and changes nothing: by the description's limit, and by what the other VM
# has (-4, overload).
tail -f /etc/hostname >/dev/null &
third=$!
answer=$(hanok-agent add --pid $third --period 20ms --execution 9ms --name third 2>&1) && fail "third"
echo "$answer"
case $answer in *"would be needed, and the vCPU may ask for"*) ;; *) fail "why: $answer" ;; esac
[ "$(ask 5000000 3900000)" = "-4 1" ] || fail "overload: $(ask 5000000 3900000)"
[ "$(ask 5000000 4500000)" = "-3 0" ] || fail "limit: $(ask 5000000 4500000)"
has "$large" && [ "$(budget)" = "$large" ] && [ "$(policy $third)" = 0 ] && echo "ok refused" || fail "changed: $(item 1)"

# An agent that dies leaves its promise standing, and the next one finds it; until somebody asks for less.
killall -9 hanok-agent
sleep 0.5
has "$large" || fail "after it died: $(item 1)"
/etc/init.d/agent
found=$(budget)
has "$large" && has "$found" && [ "$(hanok-agent list)" = yes ] && echo "ok stands" || fail "found $found"
killall -9 hanok-agent
sleep 0.5
set -- $(ask 5000000 2000000)
[ "$1" = 0 ] || fail "given back: $*"
sleep 0.1
has 2000000 && echo "ok given back" || fail "then it has $(item 1)"
/etc/init.d/agent
hanok-agent add --pid $third --period 20ms --execution 3ms --name third || fail "add third"
has "$(budget)" && [ "$(budget)" = "$small" ] || fail "anew $(budget), $(item 1)"
hanok-agent remove 1 || fail remove
sleep 1
has 2000000 && echo "ok revoked" || fail "revoked: $(item 1)"
[ "$failed" = 0 ] && echo "agent-budget: all as wanted"
exit $failed
