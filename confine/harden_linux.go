package confine

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executable returns the path of this program, valid even if its file was replaced.
func executable() (string, error) { return "/proc/self/exe", nil }

// harden removes from this process what a job does not need, before it reads any input. It returns what the kernel
// refuses.
func harden(limits Limits) (refused []string) {
	for _, one := range []struct {
		what string
		do   func() error
	}{
		{"being the first to go where memory runs out", expendable},
		{"resource limits", func() error { return setLimits(limits) }},
		{"Landlock", landlock},
		{"the filter of system calls", filterCalls},
	} {
		if err := one.do(); err != nil {
			refused = append(refused, fmt.Sprintf("%s: %v", one.what, err))
		}
	}
	return refused
}

// expendable makes the kernel kill this process before its parent if memory runs out.
func expendable() error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600)
}

// setLimits limits memory, processor time and files. RLIMIT_AS is not used: the runtime reserves far more addresses
// than it uses, which RLIMIT_DATA does not count. RLIMIT_NPROC would also count the user's processes in other
// containers.
func setLimits(limits Limits) error {
	cpu := uint64(limits.CPU / time.Second)
	for _, one := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, 0},
		{unix.RLIMIT_NOFILE, 16},
		{unix.RLIMIT_DATA, uint64(limits.Memory)},
		{unix.RLIMIT_CPU, cpu},
	} {
		// Soft and hard are equal: for processor time this kills the process with a signal that it cannot handle.
		if err := syscall.Setrlimit(one.resource, &syscall.Rlimit{Cur: one.most, Max: one.most}); err != nil {
			return err
		}
	}
	return nil
}

// landlock denies access to the file system. It applies to one thread at a time, so it requires a program without cgo.
func landlock() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return errno
	}
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_EXECUTE<<13 - 1}
	size := unsafe.Sizeof(attributes.Handled_access_fs)
	if abi >= 3 {
		attributes.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if errno != 0 {
		return errno
	}
	defer func() { _ = unix.Close(int(ruleset)) }()
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
