# What changes the kernel's own code while it runs, started by hanok.test=patching: want.what on the command
# line says which: functions, probes, labels, filters or modules; want.rounds how often; want.range which
# of the tests of BPF, by the numbers of the first and the last one. Each part shows
# that the changed code did what it is for, not only that it was accepted.
failed=0
fail() { echo "FAIL $*"; failed=1; }
rounds=3
for word in $(cat /proc/cmdline); do
    case $word in
    want.what=*) what=${word#*=} ;;
    want.rounds=*) rounds=${word#*=} ;;
    want.range=*) range=${word#*=} ;;
    esac
done
tracing=/sys/kernel/tracing
mount -t tracefs tracefs $tracing 2>/dev/null
cd $tracing 2>/dev/null
# What is looked at below is among the latest: a short trace is read in a moment.
echo 128 >buffer_size_kb

# Processes come and go, and files are read, until `rest` is called.
load() {
    while :; do
        (cat /proc/self/maps /proc/uptime >/dev/null)
        true | cat
    done &
    loads="$loads $!"
}
rest() {
    for pid in $loads; do kill "$pid"; done
    wait
    loads=
}
# lines TEXT: how many lines of the trace have it.
lines() { grep -c "$1" trace; }
# Some work that reaches the functions below.
work() { for i in 1 2 3 4 5; do (cat /proc/uptime >/dev/null); done; }

# ftrace's tracers: each turn changes the first instruction of a function, of all of them or of a few.
functions() {
    load
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "round $round"
        echo "all functions"
        echo function >current_tracer || fail "functions: refused"
        work
        echo nop >current_tracer
        echo "two functions"
        echo 'vfs_read vfs_open' >set_ftrace_filter
        echo function >current_tracer || fail "functions with a filter: refused"
        echo >trace
        work
        echo 0 >tracing_on
        [ "$(lines 'vfs_open')" -ge 5 ] || fail "functions: vfs_open was called, and is not in the trace"
        [ "$(lines 'schedule')" = 0 ] || fail "functions: the filter was not heeded"
        echo 1 >tracing_on
        echo nop >current_tracer
        echo >set_ftrace_filter
        # Of 32-bit kernels' functions this tracer shows a few alone, with the time that each took.
        echo "calls and returns"
        echo function_graph >current_tracer || fail "function_graph: refused"
        echo >trace
        work
        echo 0 >tracing_on
        [ "$(lines ' us .*();')" -ge 10 ] || fail "function_graph: nothing in the trace"
        echo 1 >tracing_on
        echo nop >current_tracer
    done
    rest
}

# Probes: a breakpoint in the place of an instruction, or a branch to a copy of it (optimized), at a
# function's beginning, inside of it, and at its return.
probes() {
    load
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "round $round"
        for optimized in 0 1; do
            echo "optimized $optimized"
            echo $optimized >/proc/sys/debug/kprobes-optimization
            echo 'p:hanok/entry vfs_open' >kprobe_events
            echo 'r:hanok/back vfs_open ret=$retval' >>kprobe_events
            probed=0
            for at in 4 8 12 16 20 24 28 32 36 40; do
                echo "p:hanok/at$at vfs_read+$at" >>kprobe_events 2>/dev/null && probed=$((probed + 1))
            done
            [ $probed -ge 3 ] || fail "probes: only $probed inside of vfs_read"
            echo 1 >events/hanok/enable
            echo >trace
            work
            # Optimized probes are changed a little later.
            sleep 1
            work
            echo 0 >events/hanok/enable
            [ "$(lines 'entry:')" -ge 10 ] || fail "probes: $(lines 'entry:') at the beginning"
            [ "$(lines 'back:')" -ge 10 ] || fail "probes: $(lines 'back:') at the return"
            [ "$(lines 'at4:')" -ge 10 ] || fail "probes: $(lines 'at4:') inside"
            echo >kprobe_events
        done
    done
    rest
}

# Jump labels: a no-op becomes a branch and back. Each event has one, schedstats too.
labels() {
    load
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "round $round"
        for on in 1 0; do
            echo $on >/proc/sys/kernel/sched_schedstats
            [ "$(cat /proc/sys/kernel/sched_schedstats)" = $on ] || fail "labels: schedstats"
        done
        echo >trace
        echo 1 >events/enable
        work
        # While events are turned off, one after the other, those that are still on go on and would push the others out.
        echo 0 >tracing_on
        echo 0 >events/enable
        for event in sched_switch sched_process_fork sys_enter mm_page_alloc; do
            [ "$(lines "$event:")" -ge 1 ] || fail "labels: no $event in the trace"
        done
        echo >trace
        echo 1 >tracing_on
        work
        [ "$(lines 'sched_switch:')" = 0 ] || fail "labels: events go on"
    done
    rest
}

# The kernel's own tests of its compiler for BPF: each makes code, runs it, and frees it. What the compiler knows no
# instructions for (divisions of 64 bits), the kernel refuses as not supported: error 524, and then the module, too.
filters() {
    echo 1 >/proc/sys/net/core/bpf_jit_enable
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "round $round"
        dmesg -c >/dev/null
        modprobe test_bpf ${range:+test_suite=test_bpf test_range=$range} 2>/dev/null && rmmod test_bpf
        # It is tried a second time where it is refused.
        dmesg | sed '/test_bpf: Summary/q' >/tmp/said
        summary=$(grep 'test_bpf: Summary' /tmp/said)
        refused=$(grep -c 'FAIL to select_runtime err=-524' /tmp/said)
        echo "$refused refused,${summary##*,}"
        case $summary in *" PASSED, $refused FAILED"*) ;; *) fail "filters: $(grep FAIL /tmp/said | head -n 3)" ;; esac
        case $summary in *"[0/"*) fail "filters: nothing was compiled" ;; esac
    done
}

# Modules: code that is loaded, linked, executed and freed, at addresses that come again.
modules() {
    load
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        echo "round $round"
        modprobe ext4 && grep -q '^ext4 ' /proc/modules || fail "modules: ext4, round $round"
        modprobe dummy && ip link set dummy0 up && ip link set dummy0 down || fail "modules: dummy, round $round"
        modprobe -r dummy
        modprobe -r ext4
        grep -q '^ext4 \|^dummy ' /proc/modules && fail "modules: they stay, round $round"
    done
    rest
}

$what
cd /
dmesg | grep -q 'Kernel panic\|Oops\|BUG:\|WARNING:\|rcu.*stall\|soft lockup' &&
    fail "dmesg: $(dmesg | grep 'panic\|Oops\|BUG:\|WARNING:\|stall\|lockup' | head -n 3)"
[ $failed = 0 ] && echo "patching: all as wanted"
exit $failed
