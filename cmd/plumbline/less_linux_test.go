package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/internal/landlock"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// less runs this test on a kernel without Landlock.
var less = flag.Bool("less", false, "run where the kernel refuses Landlock")

// TestLessConfinementIsLogged: the daemon's Runner logs it in the words of docs/explanation/threat-model.md, and each
// child process that has exited; without Landlock, a kustomization is still built.
func TestLessConfinementIsLogged(t *testing.T) {
	if !*less {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLessConfinementIsLogged$", "-test.v", "-less")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLessConfinementIsLogged") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	landlock.Refuse(t)
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
		if built, _, err := read.Build(t.Context(), runner, files); err != nil || len(built) != 1 {
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
