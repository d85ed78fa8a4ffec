# Boots a root folder's own systemd in namespaces of its own. Its network is empty; what it writes stays in the folder.
#
#   unshare --pid --fork --kill-child --mount --cgroup --uts --ipc --net sh machine.sh ROOT
#
# Exits 77 where a machine cannot do that, with the reason on stderr.
set -eu
# Takes a step that not every machine allows.
may() { "$@" || { echo "not allowed here: $*" >&2; exit 77; }; }
root=$1
may mount --make-rprivate /
may mount --bind "$root" "$root"
may mount -t proc proc "$root/proc"
may mount -t sysfs sysfs "$root/sys"
# Without it the service's eBPF maps are not pinned, which it says and can do without.
mount -t bpf bpf "$root/sys/fs/bpf" || true
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
cd "$root"
mkdir -p old
pivot_root . old
umount -l /old
rmdir /old
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=other \
  /lib/systemd/systemd --system --log-target=console
