# Stressors of stress-ng, one after the other, started by hanok.test=stressors: want.set on the command line
# says which. Each does a number of operations, so that time does not decide what is tried; `--verify`
# checks what it computed or read back. An instance runs on each CPU.
failed=0
execs=0
fail() { echo "FAIL $*"; failed=1; }
for word in $(cat /proc/cmdline); do
    case $word in
    want.set=*) set=${word#*=} ;;
    esac
done
case $set in
processes) list="fork:100 vfork:100 clone:20 daemon:20 exit-group:5 zombie:50 pthread:50 wait:20" execs=300 ;;
signals) list="sigsegv:500 sigq:500 kill:200 sigfpe:20 sigtrap:100 sigabrt:20 sigchld:100 sigfd:500 sigio:5 signal:1000
    signest:20 sigpending:200 sigpipe:200 sigrt:100 sigsuspend:200 itimer:20 timer:100 bad-altstack:10 opcode:20" ;;
memory) list="mmap:2 mmapaddr:50 mmapfixed:100 mmapfork:1 mprotect:500 mremap:2 munmap:2 madvise:2 mincore:20 msync:5 brk:500
    stack:5 stackmmap:10 malloc:500 vm:200 vm-addr:4 vm-segv:10 shm:1 shm-sysv:1 memfd:1 fault:100 userfaultfd:20 tlb-shootdown:1" ;;
waiting) list="pipe:500 switch:500 futex:500 mutex:200 sem:1 sem-sysv:200 mq:200 msg:200 fifo:200 ring-pipe:200 eventfd:200
    context:20 yield:100 ptrace:100 poll:20 sockpair:20 sock:5" ;;
vectors) list="fp:20 vecfp:2 vecmath:5 vecwide:5 vecshuf:1 matrix:10 matrix-3d:2 fp-error:10 cpu:10 nop:20 context:20" ;;
*) fail "there is no set $set" ;;
esac
ulimit -c 0
# So that a VM of 320 MiB has the memory: what the kernel kills for want of it begins again, without end.
sizes="--oom-avoid --mmap-bytes 16M --mremap-bytes 16M --vm-bytes 32M --shm-bytes 8M --shm-sysv-bytes 8M --memfd-bytes 16M --malloc-bytes 32M"
# sigio ends late if its other process has ended while it is in the handler, which then reads nothing for ever; sem does hardly
# anything in minutes where there is one CPU. Both do so on QEMU itself, too.
for entry in $list; do
    name=${entry%:*} operations=${entry#*:}
    stress-ng --$name 0 --$name-ops "$operations" --verify --timeout 300 --metrics-brief --temp-path /tmp $sizes >/tmp/said 2>&1 ||
        fail "$name: $? $(grep 'fail\|error' /tmp/said | head -n 3)"
    # stress-ng: metrc: [PID] NAME OPERATIONS ...; some have lines of their own behind that.
    done=$(awk -v name="$name" '$2 == "metrc:" && $4 == name { print $5; exit }' /tmp/said)
    [ "${done:-0}" -ge "$operations" ] && echo "ok $name: $done" || fail "$name: ${done:-none} of $operations operations"
done
# stress-ng's own stressors of exec refuse to run as root, and in a user namespace they were not seen to end, on QEMU itself neither.
if [ $execs != 0 ]; then
    for number in $(seq $execs); do
        [ "$(/bin/busybox expr $number + 1)" = $((number + 1)) ] || fail "exec: $number"
    done
    echo "ok exec: $execs"
fi
dmesg | grep -q 'Kernel panic\|Oops\|BUG:\|WARNING:\|rcu.*stall\|soft lockup' &&
    fail "dmesg: $(dmesg | grep 'panic\|Oops\|BUG:\|WARNING:\|stall\|lockup' | head -n 3)"
[ $failed = 0 ] && echo "stressors: all as wanted"
exit $failed
