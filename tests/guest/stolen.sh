# How much of its time Linux says was stolen, while it is busy: started by hanok.test=stolen. In hundredths of a
# second, of the guest's own clock.
now() { read -r up _ </proc/uptime; echo $((${up%.*} * 100 + 1${up#*.} - 100)); }
stolen() { read -r _ _ _ _ _ _ _ _ steal _ </proc/stat; echo "$steal"; }

began=$(now)
before=$(stolen)
while [ $(($(now) - began)) -lt 300 ]; do :; done
percent=$((($(stolen) - before) * 100 / ($(now) - began)))
echo "stolen: $percent percent, $before before"
