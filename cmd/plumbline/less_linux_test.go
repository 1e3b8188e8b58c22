package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/go-logr/logr/funcr"
	"golang.org/x/sys/unix"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// less has this test run where the kernel gives less.
var less = flag.Bool("less", false, "run where the kernel refuses Landlock")

// TestLessConfinementIsLogged in the words that SECURITY.md has, and each child that has ended,
// by the Runner that the daemon has: where the kernel refuses Landlock a kustomization is built
// all the same.
func TestLessConfinementIsLogged(t *testing.T) {
	if !*less {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLessConfinementIsLogged$", "-test.v", "-less")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLessConfinementIsLogged") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	withoutLandlock(t)
	var log strings.Builder
	ctrl.SetLogger(funcr.New(func(_, args string) { fmt.Fprintln(&log, args) }, funcr.Options{Verbosity: 1}))
	files := fstest.MapFS{
		"kustomization.yaml": {Data: []byte("namePrefix: my-\nresources: [a.yaml]\n")},
		"a.yaml":             {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
	}
	runner := logged(confinement(os.Args))
	for range 2 {
		read, err := kustomize.Read(files, ".")
		if err != nil {
			t.Fatal(err)
		}
		if built, err := read.Build(t.Context(), runner, files); err != nil || len(built) != 1 {
			t.Fatalf("built %v, %v", built, err)
		}
	}
	got := log.String()
	if strings.Count(got, "rendered with less confinement") != 1 || !strings.Contains(got, "Landlock: operation not permitted") {
		t.Errorf("logged %q", got)
	}
	if strings.Count(got, "a child process has ended") != 2 {
		t.Errorf("logged of children: %q", got)
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
		t.Fatal(err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal(errno)
	}
}
