package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/tests/demo/recording"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// columns and rows are the size of a recording's terminal.
const columns, rows = 104, 36

// camera records the demo, and takes a picture of some commands.
type camera struct {
	dir string
	// hide replaces what is specific to this machine.
	hide *strings.Replacer
}

// record plays the demo into a folder: demo.cast, and a picture of each command.
func record(ctx context.Context, dir string) error {
	source, err := binaries.FindSource(".")
	if err != nil {
		return err
	}
	var events bytes.Buffer
	cast, err := recording.NewCast(&events, "plumbline: the first push, the first removal", columns, rows, time.Now)
	if err != nil {
		return err
	}
	s := &scene{
		root:   filepath.Join(source, "..", "..", ".."),
		camera: &camera{dir: dir, hide: strings.NewReplacer()},
		said:   map[string]string{},
	}
	s.teller = &teller{out: io.MultiWriter(os.Stdout, hiding{s.camera, cast}), colour: true, began: time.Now()}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err = errors.Join(s.play(ctx), s.end())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "demo.cast"), events.Bytes(), 0o644)
}

// hiding replaces what is specific to this machine in what is written.
type hiding struct {
	camera *camera
	io.Writer
}

// Write requires whole lines.
func (h hiding) Write(text []byte) (int, error) {
	_, err := io.WriteString(h.Writer, h.camera.hide.Replace(string(text)))
	return len(text), err
}

// learn makes the camera hide this machine's paths and addresses.
func (s *scene) learn() {
	if s.camera == nil {
		return
	}
	host := func(url string) string {
		_, at, _ := strings.Cut(url, "://")
		at, _, _ = strings.Cut(at, "/")
		return at
	}
	s.camera.hide = strings.NewReplacer(
		host(s.sandbox.Git.URL), "git.sandbox", host(s.sandbox.Charts.Repository), "charts.sandbox", s.home, "~", s.root, "~",
	)
}

// film runs a command of plumbline in the clone, as on a terminal, and records its output.
func (s *scene) film(ctx context.Context, picture string, args ...string) error {
	if s.camera == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.root, "bin", "plumbline"), args...)
	cmd.Dir, cmd.Env = s.repo.Clone, append(s.sandbox.Environment(), "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: columns})
	if err != nil {
		return fmt.Errorf("run plumbline %s: %w", args[0], err)
	}
	shown, err := io.ReadAll(terminal)
	if broken := (*fs.PathError)(nil); err != nil && (!errors.As(err, &broken) || !errors.Is(broken, syscall.EIO)) {
		return err // on Linux, reading a closed terminal returns EIO
	}
	var ended *exec.ExitError
	if err := errors.Join(cmd.Wait(), terminal.Close()); err != nil && (!errors.As(err, &ended) || ended.ExitCode() == 1) {
		return fmt.Errorf("plumbline %s: %w: %s", strings.Join(args, " "), err, shown)
	}
	line := s.paint(bold, "$ plumbline "+strings.Join(args, " "))
	s.write("\n" + line + "\n" + string(shown))
	svg, err := recording.SVG("plumbline "+picture, s.camera.hide.Replace(line+"\n"+string(shown)), columns)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.camera.dir, picture+".svg"), []byte(svg), 0o644)
}

// askFirst shows the current state, and the effect of a change that is not pushed.
func (s *scene) askFirst(ctx context.Context) error {
	if s.camera == nil {
		return nil
	}
	s.begin("The objects, and the plan of an edit of nodes/general.yaml")
	if err := s.until(ctx, s.initialized); err != nil {
		return err
	}
	file := filepath.Join(s.repo.Clone, "nodes", "general.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	after := strings.NewReplacer("cpu: 100", "cpu: 200", "template:\n", "template:\n    metadata: {labels: {team: web}}\n").Replace(string(before))
	for _, step := range []func() error{
		func() error { return s.film(ctx, "get", "get") },
		func() error { return s.film(ctx, "tree", "tree", name) },
		func() error { return os.WriteFile(file, []byte(after), 0o644) },
		func() error { return s.film(ctx, "plan", "plan", ".", "--against", name) },
		func() error { return os.WriteFile(file, before, 0o644) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	s.done("git checkout nodes/general.yaml: nothing was pushed")
	return nil
}

// initialized returns an error that names a NodeClaim that is not ready for pods yet.
func (s *scene) initialized(ctx context.Context) error {
	list, err := s.objects.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, claim := range list.Items {
		if conditions, _, _ := unstructured.NestedSlice(claim.Object, "status", "conditions"); !slices.ContainsFunc(conditions, func(c any) bool {
			of, ok := c.(map[string]any)
			return ok && of["type"] == "Initialized" && of["status"] == "True"
		}) {
			return fmt.Errorf("NodeClaim %s is not Initialized", claim.GetName())
		}
	}
	return nil
}

// filmRemoval shows the status once the removal's nodes drain.
func (s *scene) filmRemoval(ctx context.Context) error {
	if s.camera == nil {
		return nil
	}
	err := s.until(ctx, func(ctx context.Context) error {
		sync, err := s.objects.Resource(nodeSyncs).Namespace(daemon.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		removals, _, err := unstructured.NestedSlice(sync.Object, "status", "removals")
		if err == nil && (len(removals) == 0 || removals[0].(map[string]any)["phase"] != "Draining") {
			err = errors.New("no node drains yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.film(ctx, "status", "status", name)
}
