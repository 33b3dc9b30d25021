"""Runs a program as a container engine would with its strictest settings, without an engine:
namespaces of its own for mounts, processes and IPC, a read-only root that holds only /usr and what
is named, /proc, /sys (read-only), a /dev of the five usual devices and no /dev/infiniband, another
user without any capability, no new privileges, 64 KiB of lockable memory, and a seccomp filter that
refuses what engines refuse. The network namespace stays the caller's.
    container.py UID FOLDER[:FOLDER...] PROGRAM [ARGUMENT...]"""

import ctypes
import os
import resource
import struct
import sys
import tempfile

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID = 0x20000, 0x4000000, 0x8000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 23, 24, 38, 22
SYS_PIVOT_ROOT = 155

# x86-64 numbers of what Docker's default profile refuses and RDMA in user space might miss:
# process_vm_readv/writev, ptrace, kcmp, unshare, setns, mount, userfaultfd, perf_event_open, bpf,
# io_uring_*, open_by_handle_at, pidfd_getfd, memory policy calls.
REFUSED = [310, 311, 101, 312, 272, 308, 165, 323, 298, 321, 425, 426, 427, 304, 438, 237, 238, 239]
DEVICES = ["null", "zero", "full", "random", "urandom"]

libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source, target, kind=None, flags=0, options=None):
    words = [word and word.encode() for word in (source, target, kind, options)]
    must(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]),
         f"mount {target}")


def bind(source, target):
    os.makedirs(target, exist_ok=True)
    mount(source, target, None, MS_BIND | MS_REC)
    mount(None, target, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID)


def make_root(root, folders):
    mount("tmpfs", root, "tmpfs", 0, "mode=755")
    bind("/usr", root + "/usr")
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink("usr/" + name, f"{root}/{name}")
    bind("/etc/alternatives", root + "/etc/alternatives")
    with open(root + "/etc/passwd", "w", encoding="ascii") as file:
        file.write("nobody:x:65534:65534::/:/bin/sh\n")
    for name in folders:
        bind(name, root + name)
    os.makedirs(root + "/dev/shm")
    for name in DEVICES:
        open(f"{root}/dev/{name}", "w").close()
        mount("/dev/" + name, f"{root}/dev/{name}", None, MS_BIND)
    mount("shm", root + "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=64m,mode=1777")
    for name, kind, flags in (("proc", "proc", 0), ("sys", "sysfs", MS_RDONLY)):
        os.mkdir(f"{root}/{name}")
        mount(kind, f"{root}/{name}", kind, MS_NOSUID | MS_NODEV | MS_NOEXEC | flags)


def enter_root(root):
    os.mkdir(root + "/old")
    os.chdir(root)
    must(libc.syscall(SYS_PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chdir("/")
    must(libc.umount2(b"/old", MNT_DETACH), "umount")
    os.rmdir("/old")
    mount(None, "/", None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def refuse_calls():
    """A classic BPF filter over struct seccomp_data: EPERM for each of REFUSED."""
    def step(code, jump_true, jump_false, value):
        return struct.pack("HBBI", code, jump_true, jump_false, value)
    program = step(0x20, 0, 0, 0)  # load the call's number
    for left, number in zip(range(len(REFUSED), 0, -1), REFUSED):
        program += step(0x15, left, 0, number)
    program += step(0x06, 0, 0, 0x7fff0000) + step(0x06, 0, 0, 0x00050001)
    text = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(text))
    must(libc.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0),
         "seccomp")


def give_up_privileges(uid):
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    capability = 0
    while libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0:
        must(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "capability")
        capability += 1
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def wait_as_init(program):
    """Waits for the program, and meanwhile for the orphans that the first process inherits."""
    while True:
        pid, status = os.wait()
        if pid == program:
            return os.waitstatus_to_exitcode(status) & 0xff


def main():
    uid, folders, command = int(sys.argv[1]), sys.argv[2].split(":"), sys.argv[3:]
    must(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID), "unshare")
    inside = os.fork()      # the first process of the new process namespace
    if inside:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(inside, 0)[1]) & 0xff)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    with tempfile.TemporaryDirectory(prefix="verbena-container-") as root:
        program = os.fork()
        if program:
            sys.exit(wait_as_init(program))
        make_root(root, folders)
        enter_root(root)
        give_up_privileges(uid)
        refuse_calls()
        os.execvpe(command[0], command, os.environ)


main()
