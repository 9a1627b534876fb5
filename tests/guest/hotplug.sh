# CPU 3 goes (PSCI CPU_OFF, AFFINITY_INFO) and comes (CPU_ON), five times, and works each time.
cpu=/sys/devices/system/cpu/cpu3/online
online=/sys/devices/system/cpu/online
for round in 1 2 3 4 5; do
    echo 0 >$cpu || exit 1
    [ "$(cat $online)" = 0-2 ] || exit 2
    taskset -c 3 true 2>/dev/null && exit 3
    echo 1 >$cpu || exit 4
    [ "$(cat $online)" = 0-3 ] || exit 5
    taskset -c 3 sleep 0.1 || exit 6
    echo "round $round: gone and back"
done
