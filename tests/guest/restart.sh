# A Linux that shows that it works, and restarts, for ever: hanok.test=restart.
modprobe ext4 && grep -q '^ext4 ' /proc/modules || echo "FAIL modules"
[ "$(cut -d. -f1 /proc/uptime)" -lt 600 ] || echo "FAIL: the clock of the last life goes on: $(cat /proc/uptime)"
echo "restart: this life begins"
reboot
exec sleep 1000000
