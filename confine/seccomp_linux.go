package confine

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls returns all system calls that Go's runtime, or a C library's threads, need while a job reads, computes and
// writes. All others, such as those for the network, files and other processes, fail with EPERM.
func calls() []uint32 {
	return append([]uint32{
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_FSTAT,
		unix.SYS_PREAD64, // only of files that are already open
		unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MINCORE,
		unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETTID, unix.SYS_GETPID,
		unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_RESTART_SYSCALL,
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	}, callsOfArch()...)
}

// commands returns the fcntl commands that Go's runtime and a C library need. With F_SETOWN and F_SETSIG a job could
// make the kernel send any signal to the parent, which runs as the same user.
func commands() []uint32 {
	return []uint32{unix.F_GETFL, unix.F_SETFL, unix.F_GETFD, unix.F_SETFD, unix.F_DUPFD_CLOEXEC}
}

const (
	callNumber = 0  // offsets in struct seccomp_data
	callArch   = 4  //
	firstArg   = 16 // the lower half of the first argument, on a little-endian machine
	secondArg  = 24
)

// filterCalls makes the kernel refuse all other system calls, for all threads.
func filterCalls() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := program(calls(), uint32(os.Getpid()))
	sent := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&sent)))
	if errno != 0 {
		return errno
	}
	return nil
}

// program returns the filter in BPF: system calls are allowed by number, fcntl only with some commands, clone only for
// threads, and tgkill only for this process. clone3 is reported as not implemented, because a filter cannot see its
// arguments; a C library then uses clone.
func program(allowed []uint32, pid uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	end := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	equals := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	refuse := unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	filter := []unix.SockFilter{
		load(callArch), equals(auditArch, 1, 0), end(unix.SECCOMP_RET_KILL_PROCESS),
		load(callNumber),
	}
	for _, call := range allowed {
		filter = append(filter, equals(call, 0, 1), end(unix.SECCOMP_RET_ALLOW))
	}
	fcntl := []unix.SockFilter{load(secondArg)}
	for _, command := range commands() {
		fcntl = append(fcntl, equals(command, 0, 1), end(unix.SECCOMP_RET_ALLOW))
	}
	fcntl = append(fcntl, end(refuse))
	filter = append(append(filter, equals(unix.SYS_FCNTL, 0, uint8(len(fcntl)))), fcntl...)
	return append(
		filter,
		equals(unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)),
		equals(unix.SYS_CLONE, 0, 4),
		load(firstArg),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 0, Jf: 1},
		end(unix.SECCOMP_RET_ALLOW),
		end(refuse),
		equals(unix.SYS_TGKILL, 0, 3),
		load(firstArg),
		equals(pid, 0, 1),
		end(unix.SECCOMP_RET_ALLOW),
		end(refuse),
	)
}
