# The Linux side of systems/channel.toml, by busybox' devmem alone: started by hanok.test=channel. The RTOS publishes samples
# in the first half of the memory; set points go to it by a ring of words in the second half.
failed=0
fail() { echo "FAIL $*"; failed=1; }
word() { printf '%d' "$(devmem "$(printf '0x%x' "$1")" 32)"; }
put() { devmem "$(printf '0x%x' "$1")" 32 "$2"; }

node=$(ls -d /proc/device-tree/channel@*)
[ "$(tr '\0' ' ' <"$node/hanok,members")" = "rtos linux " ] || fail "members"
[ "$(tr -d '\0' <"$node/hanok,name")" = sensor ] || fail "name"
base=$((0x0b000000))
memory=$((0x20000000))
half=$((memory + 0x8000))
[ "$(word $((base + 8)))" = 65536 ] && [ "$(word $((base + 12)))" = $((0x201)) ] || fail "registers"

# Whether the RTOS is there; samples rise by themselves.
for try in 1 2 3 4 5 6 7 8 9 10; do
    [ "$(word $((base + 0x20)))" = 1 ] && break
    sleep 0.5
done
[ "$(word $((base + 0x20)))" = 1 ] || fail "state $(word $((base + 0x20)))"
first=$(word $((memory + 4)))
sleep 0.5
second=$(word $((memory + 4)))
[ "$second" -gt "$first" ] && echo "ok samples" || fail "samples $first, $second"

# It rings after each sample.
put $((base + 0x18)) 0xffffffff
sleep 0.1
[ "$(word $((base + 0x18)))" = 1 ] && echo "ok rung" || fail "pending $(word $((base + 0x18)))"

# The interrupt reaches a program as an input event.
# In 32 bit gpio_keys is built in.
modprobe gpio_keys 2>/dev/null
modprobe evdev
sleep 0.2
put $((base + 0x18)) 0xffffffff
event=
for one in /sys/class/input/event*; do
    [ "$(cat "$one/device/name")" = "hanok,channel sensor" ] && event=/dev/input/${one##*/}
done
if [ -n "$event" ]; then
    timeout 5 dd if="$event" of=/tmp/event bs=24 count=1 2>/dev/null &
    sleep 0.3
    put $((base + 0x18)) 0xffffffff
    put $((base + 0x1c)) 1
    wait
    put $((base + 0x1c)) 0
    # Behind the time of two longs: type 1 is EV_KEY; code 0x2c0; value 1.
    [ "$(uname -m)" = aarch64 ] && time=16 || time=8
    [ "$(od -An -tx2 -j$time -N6 /tmp/event)" = " 0001 02c0 0001" ] && echo "ok event" || fail "event: $(od -tx2 /tmp/event), $(grep hanok /proc/interrupts)"
else
    fail "no input device: $(cat /sys/class/input/event*/device/name)"
fi

# Set points: a word with the bytes of each message, and the message.
stored=0
for point in 11 22 33; do
    put $((half + 8 + 4 * stored)) 4
    put $((half + 8 + 4 * stored + 4)) $point
    stored=$((stored + 2))
    put $half $stored
    put $((base + 0x14)) 1
    sleep 0.2
    now=$(word $((memory + 8)))
    [ "$now" = $point ] && echo "ok set point $point" || fail "set point $point: $now"
done
# Nonsense harms nobody: samples go on.
put $half 0xdeadbeef
sleep 0.2
first=$(word $((memory + 4)))
sleep 0.5
[ "$(word $((memory + 4)))" -gt "$first" ] && echo "ok nonsense" || fail "stopped"
[ "$failed" = 0 ] && echo "channel: all as wanted"
exit $failed
