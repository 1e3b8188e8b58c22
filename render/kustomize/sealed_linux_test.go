package kustomize_test

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/plumbline-dev/plumbline/render/kustomize"
)

var sealed = flag.String("sealed", "", "set by the test itself: build within the seal, guarded or not")

// TestSealed builds in a process that the kernel kills at its first socket and its first child. The same kustomizations
// without the guard are killed, which shows that the seal works.
func TestSealed(t *testing.T) {
	switch *sealed {
	case "guarded":
		seal(t)
		buildGuarded(t)
		return
	case "a socket", "a child":
		seal(t)
		t.Log(buildUnguarded(*sealed))
		return
	}
	for name, killed := range map[string]bool{"guarded": false, "a socket": true, "a child": true} {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSealed$", "-test.v", "-sealed="+name)
			out, err := child.CombinedOutput()
			status, _ := child.ProcessState.Sys().(syscall.WaitStatus)
			if died := status.Signaled() && status.Signal() == unix.SIGSYS; died != killed {
				t.Errorf("killed: %v, want %v (%v)\n%s", died, killed, err, out)
			}
			if !killed && (err != nil || !strings.Contains(string(out), "built within the seal")) {
				t.Errorf("error %v\n%s", err, out)
			}
		})
	}
}

// buildHere builds in this process, which is sealed and starts no other.
func buildHere(t *testing.T, fsys fs.FS, folder string) ([]kustomize.Resource, error) {
	k, err := kustomize.Read(fsys, folder)
	if err != nil {
		return nil, err
	}
	made, _, err := k.Build(t.Context(), nil, fsys)
	return made, err
}

func buildGuarded(t *testing.T) {
	resources, err := buildHere(t, tree(overlay()), "clusters/a/nodes")
	if err != nil || len(resources) != 3 {
		t.Fatalf("%d resources, error %v", len(resources), err)
	}
	for name, tc := range hostile() {
		if _, err := buildHere(t, tree(hostileTree(tc.text)), "."); err == nil {
			t.Errorf("%s: built", name)
		}
	}
	t.Log("built within the seal")
}

// buildUnguarded makes kustomize itself load something remote.
func buildUnguarded(what string) error {
	files := filesys.MakeFsInMemory()
	resource := map[string]string{"a socket": "http://127.0.0.1:9/a.yaml", "a child": "ssh://127.0.0.1:9/a/b"}[what]
	_ = files.WriteFile("/kustomization.yaml", []byte("resources: ['"+resource+"']\n"))
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsNone
	_, err := krusty.MakeKustomizer(options).Run(files, "/")
	return err
}

// seal makes the kernel kill this process when it opens a socket or starts another process; it may start threads.
func seal(t *testing.T) {
	const number, firstArgument = 0, 16 // offsets in struct seccomp_data
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	forbidden := []uint32{unix.SYS_SOCKET, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_CLONE3}
	for i, call := range forbidden {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(forbidden) - i + 2)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 3},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatalf("give up new privileges: %v", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		t.Fatalf("seal the process: %v", errno)
	}
}
