# What every Linux must show, started by hanok.test=linux: want.release, want.cpus and
# want.rt on the command line say what is wanted; want.clock=no that the board has no clock,
# want.build=armmp that the kernel is one for 32 bits, want.trng=yes that the firmware has random
# numbers.
failed=0
build=arm64
fail() { echo "FAIL $*"; failed=1; }

for word in $(cat /proc/cmdline); do
    case $word in
    want.release=*) release=${word#*=} ;;
    want.cpus=*) cpus=${word#*=} ;;
    want.rt=*) rt=${word#*=} ;;
    want.clock=*) clock=${word#*=} ;;
    want.trng=*) trng=${word#*=} ;;
    want.build=*) build=${word#*=} ;;
    esac
done

# The kernel that was asked for. Without want.release the pattern matches nothing.
case $(uname -r) in
"${release:-none}".*-"$build") echo "ok release" ;;
*) fail "release: $(uname -r), wanted $release" ;;
esac
case "$(uname -v)" in *PREEMPT_RT*) real=yes ;; *) real=no ;; esac
[ "$real" = "$rt" ] && echo "ok preemption" || fail "preemption: $(uname -v), wanted rt=$rt"

# Every CPU is there, ticks, and is reached by an IPI.
[ "$(grep -c ^processor /proc/cpuinfo)" = "$cpus" ] && echo "ok cpus" || fail "cpus: wanted $cpus"
[ "$(cat /sys/devices/system/cpu/online)" = "$([ "$cpus" = 1 ] && echo 0 || echo "0-$((cpus - 1))")" ] ||
    fail "online: $(cat /sys/devices/system/cpu/online)"

# counts NAME: the numbers of the line of /proc/interrupts that ends in NAME.
counts() { awk -v n="$cpus" -v name="$1" '$NF == name { for (i = 2; i < 2 + n; i++) printf "%s ", $i }' /proc/interrupts; }
before=$(counts arch_timer)
cpu=0
while [ $cpu -lt "$cpus" ]; do
    taskset -c $cpu sleep 0.2 || fail "taskset $cpu"
    cpu=$((cpu + 1))
done
after=$(counts arch_timer)
[ -n "$after" ] || fail "timer: no arch_timer in /proc/interrupts"
set -- $after
[ $# = "$cpus" ] || fail "timer: $# counts"
for old in $before; do
    [ "$1" -gt "$old" ] || fail "timer: a CPU does not tick ($before, then $after)"
    shift
done
echo "ok timer"

# Time goes as on the wall clock (PL031), within what an emulator under load allows.
uptime() { cut -d. -f1 /proc/uptime; }
start=$(uptime)
sleep 2
passed=$(($(uptime) - start))
[ $passed -ge 1 ] && [ $passed -le 20 ] && echo "ok sleep" || fail "sleep 2 took $passed"
case ${clock:-yes} in
yes) [ "$(hwclock -r -f /dev/rtc0 >/dev/null 2>&1; date +%Y)" -ge 2024 ] && echo "ok clock" || fail "clock: $(date)" ;;
*) [ "$(date +%Y)" = 1970 ] && echo "ok no clock" || fail "clock: $(date), wanted none" ;;
esac

# Modules load, and do something.
modprobe ext4 && modprobe virtio_net && grep -q '^ext4 ' /proc/modules && grep -q ext4 /proc/filesystems &&
    echo "ok modules" || fail "modules"

# Randomness was handed over: no CPU here has an instruction for it everywhere.
dmesg | grep -q 'crng init done' && echo "ok seed" || fail "seed: no crng init"
# The kernel asks the firmware's generator for its version, and makes a device of it (64 bit alone).
case ${trng:-no} in
yes) [ -e /sys/devices/platform/smccc_trng ] && echo "ok trng" || fail "trng: the kernel found none" ;;
esac
dmesg | grep -q 'Kernel panic\|Oops\|BUG:\|WARNING:\|rcu.*stall\|soft lockup' && fail "dmesg: $(dmesg | grep 'panic\|Oops\|BUG:\|WARNING:\|stall\|lockup' | head -3)"
[ $failed = 0 ] && echo "linux: all as wanted"
exit $failed
