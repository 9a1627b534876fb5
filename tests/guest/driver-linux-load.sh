# Writes to a disk ($1) what is new each time, and reads it back past the caches: so many rounds ($2) as a word for each says.
disk=$1
for round in $(seq "$2"); do
    head -c 2500000 /dev/urandom >"/tmp/$disk"
    echo "$disk round-$round"
    dd if="/tmp/$disk" of="/dev/$disk" bs=64k seek=$((round * 40)) conv=fsync 2>/dev/null || exit 1
    echo 3 >/proc/sys/vm/drop_caches
    dd if="/dev/$disk" bs=64k skip=$((round * 40)) count=40 2>/dev/null | head -c 2500000 | cmp - "/tmp/$disk" || exit 1
    sha256sum <"/tmp/$disk" >"/tmp/$disk.$round"
done
# What was written in all rounds is there at the end.
echo 3 >/proc/sys/vm/drop_caches
for round in $(seq "$2"); do
    dd if="/dev/$disk" bs=64k skip=$((round * 40)) count=40 2>/dev/null | head -c 2500000 | sha256sum | cmp - "/tmp/$disk.$round" || exit 1
done
echo "$disk all-as-written"
