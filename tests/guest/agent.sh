# What the agent does in a Linux without a hypervisor, whose CPUs are whole ones: started by hanok.test=agent.
failed=0
fail() { echo "FAIL $*"; failed=1; }
# policy PID: by which policy Linux schedules it; 6 is SCHED_DEADLINE.
policy() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f39; }

hanok-agent status || fail status
cpus=$(grep -c ^processor /proc/cpuinfo)
[ "$(hanok-agent status | grep -c kind=whole)" = "$cpus" ] || fail "kind"

# A program that knows nothing of the agent becomes a task, and ceases to be one. It wakes each second, and starts no
# others: a fork that is under way when its thread gets deadlines may fail.
tail -f /etc/hostname >/dev/null &
program=$!
hanok-agent add --pid $program --period 10ms --execution 2ms --name loop || fail add
hanok-agent list
sleep 1.5
[ "$(policy $program)" = 6 ] && echo "ok scheduled" || fail "policy $(policy $program)"
grep Cpus_allowed_list "/proc/$program/status"
hanok-agent add --pid $program --period 10ms --execution 2ms && fail "twice"
hanok-agent remove 1 || fail remove
[ "$(policy $program)" = 0 ] && echo "ok as before" || fail "policy $(policy $program)"

# More than all CPUs is refused, and changes nothing.
programs=
for _ in $(seq "$cpus") more; do
    tail -f /etc/hostname >/dev/null &
    programs="$programs $!"
done
admitted=0
for each in $programs; do
    hanok-agent add --pid "$each" --period 20ms --execution 16ms && admitted=$((admitted + 1))
done
[ $admitted = "$cpus" ] && echo "ok refused" || fail "admitted $admitted"
sleep 1.5
scheduled=0
for each in $programs; do
    [ "$(policy "$each")" != 6 ] || scheduled=$((scheduled + 1))
done
[ $scheduled = "$cpus" ] || fail "scheduled $scheduled"
hanok-agent list | grep ^task
hanok-agent status

# An agent that dies leaves all as it is. The next one knows no task, and goes on.
killall hanok-agent
sleep 0.3
hanok-agent list && fail "an agent that is gone answers"
/etc/init.d/agent
[ "$(hanok-agent list)" = yes ] && echo "ok anew" || fail "$(hanok-agent list)"
admitted=0
for each in $programs; do
    hanok-agent add --pid "$each" --period 20ms --execution 16ms && admitted=$((admitted + 1))
done
[ $admitted = "$cpus" ] || fail "admitted $admitted anew"

# A task goes with its program.
kill $programs $program
sleep 2.5
[ "$(hanok-agent list)" = yes ] && echo "ok gone" || fail "$(hanok-agent list)"
[ "$failed" = 0 ] && echo "agent: all as wanted"
exit $failed
