# Boots systemd in namespaces of its own, with this machine's files below and everything it writes in memory.
#
#   unshare --pid --fork --mount --cgroup --uts --ipc --net sh machine.sh FOLDER PROGRAM PACKAGING
#
# FOLDER is empty; systemd's root is FOLDER/root. Exits 77 where a machine cannot do that, with the reason on stderr.
set -eu
# Takes a step that not every machine allows.
may() { "$@" || { echo "not allowed here: $*" >&2; exit 77; }; }
folder=$1; root=$folder/root
may mount --make-rprivate /
may mount -t tmpfs tmpfs "$folder"
mkdir "$folder/upper" "$folder/work" "$root"
may mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" "$root"
may mount -t proc proc "$root/proc"
may mount -t sysfs sysfs "$root/sys"
may mount -t tmpfs tmpfs "$root/run"
may mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
may mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do may cp -a "/dev/$device" "$root/dev/"; done
mkdir "$root/dev/shm" "$root/dev/pts"
may mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
may mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  may mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  may mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/systemd"
  may mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
  may mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
fi

touch "$root/usr/bin/gridmux"
mount --bind "$2" "$root/usr/bin/gridmux"
cp "$3"/*.service "$root/etc/systemd/system/"
mkdir -p "$root/usr/lib/sysusers.d" "$root/etc/gridmux"
cp "$3/sysusers.conf" "$root/usr/lib/sysusers.d/gridmux.conf"
cp "$folder.toml" "$root/etc/gridmux/gridmux.toml"
cat > "$root/etc/systemd/system/trial.target" <<'UNIT'
[Unit]
Description=The units on trial
Wants=gridmux.service gridmux-metrics.service systemd-journald.service
UNIT
# A watchdog that a test can wait for.
mkdir "$root/etc/systemd/system/gridmux.service.d"
printf '[Service]\nWatchdogSec=4\n' > "$root/etc/systemd/system/gridmux.service.d/trial.conf"
chroot "$root" systemd-sysusers
cd "$root"
mkdir old
pivot_root . old
umount -l /old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=other \
  /lib/systemd/systemd --system --unit=trial.target --log-target=console
