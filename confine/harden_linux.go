package confine

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executable is this program, even where its file was replaced meanwhile.
func executable() (string, error) { return "/proc/self/exe", nil }

// harden takes from this process what a job needs not, before it has read any input. It
// returns what the kernel refuses.
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

// expendable has the kernel end this process before the one that started it.
func expendable() error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600)
}

// setLimits bounds memory, processor time and files. RLIMIT_AS is left as it is: the
// runtime reserves far more addresses than it uses, which RLIMIT_DATA does not count.
// RLIMIT_NPROC counts what the user has in other containers, too.
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
		// Soft and hard alike: for processor time that is a kill that nobody handles.
		if err := syscall.Setrlimit(one.resource, &syscall.Rlimit{Cur: one.most, Max: one.most}); err != nil {
			return err
		}
	}
	return nil
}

// landlock takes all of the file system. It binds a thread at a time, and so needs a
// program without C in it.
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
