package confine_test

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// less has this test run where the kernel gives less.
var less = flag.Bool("less", false, "run where the kernel refuses Landlock")

// TestWhatTheKernelRefusesIsTold: where Landlock cannot be had the work is done all the same, and
// it is told which part of the confinement is missing, once.
func TestWhatTheKernelRefusesIsTold(t *testing.T) {
	if !*less {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatTheKernelRefusesIsTold$", "-test.v", "-less")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	withoutLandlock(t)
	var told []string
	telling := runner.Telling(func(refused string) { told = append(told, refused) }, nil)
	for range 2 {
		if got, err := telling.Ask(t.Context(), "an echo", "echo", "hello"); err != nil || got != "hello" {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "Landlock: operation not permitted") {
		t.Errorf("told of %q", told)
	}
}

// withoutLandlock has the kernel refuse Landlock to this process and its children.
func withoutLandlock(t *testing.T) {
	t.Helper()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skip("this kernel refuses to give less: ", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Skip("this kernel has no filter of system calls: ", errno)
	}
}
