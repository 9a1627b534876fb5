# 32-bit programs under load on four CPUs, with floating point in several at once: what one
# computes must not depend on what another left in the registers.
failed=0
fail() { echo "FAIL $*"; failed=1; }
bb=/bin/busybox32
[ "$(dd if=$bb bs=1 skip=4 count=1 2>/dev/null | od -An -tx1 | tr -d ' ')" = 01 ] || fail "not a 32-bit program"
grep -q '^CPU architecture: 8' /proc/cpuinfo || fail "cpuinfo"

# A known digest: of 4 MiB of zeros.
zeros=b5cfa9d6c8febd618f91ac2843d50a1c
# A sum and a product whose values are known: sum of 1/k(k+1), which is n/(n+1) but for
# rounding, and 1.0000001 to the power of n; in IEEE 754 every digit is certain.
program='BEGIN { s = 0; t = 1; for (k = 1; k <= n; k++) { s += 1 / (k * (k + 1)); t = t * 1.0000001 } printf "%.15f %.12f", s, t }'
run() { # run NUMBER PROGRAM...
    n=$1
    shift
    out=/tmp/out.$n
    for round in 1 2; do
        "$@" awk -v n=10000 "$program" || echo wrong
        echo
        "$@" dd if=/dev/zero bs=64k count=64 2>/dev/null | "$@" md5sum
    done >$out 2>&1
}
job=0
for n in 1 2 3 4; do
    run 32.$n $bb &
    run 64.$n busybox &
done
wait
want="0.999900009999001 1.001000500117"
for n in 32.1 32.2 32.3 32.4 64.1 64.2 64.3 64.4; do
    [ "$(grep -c "^$want\$" /tmp/out.$n)" = 2 ] || fail "$n: floating point: $(cat /tmp/out.$n)"
    [ "$(grep -c "^$zeros " /tmp/out.$n)" = 2 ] || fail "$n: digest: $(cat /tmp/out.$n)"
done
[ $failed = 0 ] && echo "compat: all as wanted"
exit $failed
