package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// These tests include new commands automatically: they walk the command tree, and derive the arguments from its usage.

// podless is what logs prints for a cluster without plumbline: it only needs the daemon's pods.
const podless = "no pod of plumbline runs in fleet"

// commands returns all that print something, except the daemon and cobra's own.
func commands(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, cmd := range root.Commands() {
		if cmd.Runnable() && cmd.Name() != "run" && cmd.Name() != "help" {
			all = append(all, cmd)
		}
		all = append(all, commands(cmd)...)
	}
	return all
}

// given returns arguments for a command, according to its usage: a folder, a NodeSync, or one of several words. asks
// reports whether it accesses a cluster with them.
func given(cmd *cobra.Command, path, sync string) (args []string, asks bool) {
	words := strings.Fields(cmd.Use)[1:]
	for _, word := range words {
		word = strings.Trim(word, "[].")
		switch {
		case word == "flags":
		case strings.HasPrefix(word, "--"):
			args = append(args, word)
		case strings.HasSuffix(word, "NODESYNC"):
			args, asks = append(args, sync), true
		case word == "PATH":
			args = append(args, path)
		case word == "FOLDER":
			args = append(args, filepath.Join(path, "made"))
		case word == strings.ToLower(word) && strings.Contains(word, "|"):
			args = append(args, strings.Split(word, "|")[0])
		}
	}
	return args, asks
}

// needs reports whether a command requires an argument.
func needs(cmd *cobra.Command) bool {
	words := strings.Fields(strings.ReplaceAll(cmd.Use, "[flags]", ""))
	return len(words) > 1 && !strings.HasPrefix(words[1], "[")
}

func line(cmd *cobra.Command, args ...string) []string {
	return append(strings.Fields(cmd.CommandPath())[1:], args...)
}

// graceful checks each result: an exit code of plumbline's, no stack trace, and an error of a few lines that start with
// the program's name.
func graceful(t *testing.T, got said) {
	t.Helper()
	for _, crash := range []string{"panic", "goroutine ", "runtime error", "nil pointer", "%!"} {
		if strings.Contains(got.out+got.err, crash) {
			t.Errorf("says %q: %s%s", crash, got.out, got.err)
		}
	}
	if got.code < exitDone || got.code > exitStalled {
		t.Errorf("code %d", got.code)
	}
	if got.code == exitFailed && !strings.Contains(got.err, "plumbline: ") && !strings.Contains(got.out, "refused") && !strings.Contains(got.out, "failed") {
		t.Errorf("ends with %d and says %q", got.code, got.err)
	}
	if lines := strings.Count(got.err, "\n"); lines > 6 {
		t.Errorf("says %d lines: %s", lines, got.err)
	}
}

// each runs a test for each command.
func each(t *testing.T, test func(t *testing.T, cmd *cobra.Command)) {
	t.Helper()
	root := newRootCommand()
	root.InitDefaultCompletionCmd("x")
	for _, cmd := range commands(root) {
		t.Run(cmd.CommandPath(), func(t *testing.T) { test(t, cmd) })
	}
}

func TestBadArguments(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	each(t, func(t *testing.T, cmd *cobra.Command) {
		at := []string{"--kubeconfig", kubeconfig}
		none := plumbline(t, line(cmd, at...)...)
		graceful(t, none)
		if needs(cmd) && (none.code != exitFailed || !strings.Contains(none.err, "\nUsage: "+cmd.CommandPath())) {
			t.Errorf("no arguments: code %d, says %q", none.code, none.err)
		}
		many := plumbline(t, line(cmd, append([]string{"a", "b", "c", "d", "e"}, at...)...)...)
		graceful(t, many)
		if many.code != exitFailed || !strings.Contains(cmd.Use, "...") && cmd.Parent().Name() == "plumbline" && !strings.Contains(many.err, "\nUsage: ") {
			t.Errorf("too many arguments: code %d, says %q", many.code, many.err)
		}
		flag := plumbline(t, line(cmd, "--absent")...)
		if graceful(t, flag); flag.code != exitFailed || !strings.Contains(flag.err, "unknown flag: --absent") {
			t.Errorf("an unknown flag: code %d, says %q", flag.code, flag.err)
		}
		if args, _ := given(cmd, "./absent/äö ü", "absent"); len(args) > 0 && cmd.Name() != "reference" {
			wrong := plumbline(t, line(cmd, append(args, at...)...)...)
			if graceful(t, wrong); wrong.code != exitFailed || !strings.Contains(wrong.err, "absent") && !strings.Contains(wrong.err, podless) {
				t.Errorf("%v: code %d, says %q", args, wrong.code, wrong.err)
			}
		}
	})
}

// TestBadClusters: a cluster that does not respond, one without plumbline, one that no longer knows the user, and one
// that returns nonsense.
func TestBadClusters(t *testing.T) {
	dead, address := unreachable(t)
	bare, bareConfig := serve(t)
	bare.refused["/apis/plumbline.dev"] = http.StatusNotFound
	expired, expiredConfig := serve(t)
	expired.refused["/"] = http.StatusUnauthorized
	page, pageConfig := serve(t)
	for _, path := range []string{"/apis/plumbline.dev/v1alpha1/namespaces/fleet/nodesyncs/prod", "/apis/plumbline.dev/v1alpha1/namespaces/fleet/nodesyncs", "/apis/apps/v1/deployments", "/api/v1/namespaces/fleet/events", "/api/v1/namespaces/fleet/pods"} {
		page.texts[path] = "<html>the proxy's login page</html>"
	}
	each(t, func(t *testing.T, cmd *cobra.Command) {
		args, asks := given(cmd, examples(t)["basic"], "prod")
		if cmd.Name() == "why" {
			args, asks = []string{"i-1"}, true
		}
		if !asks {
			return
		}
		for kubeconfig, says := range map[string]string{
			dead: address, bareConfig: "plumbline is not installed", expiredConfig: "log in again", pageConfig: "",
			filepath.Join(t.TempDir(), "äö ü"): "äö ü",
		} {
			got := plumbline(t, line(cmd, append(args, "--kubeconfig", kubeconfig)...)...)
			if graceful(t, got); got.code != exitFailed || !strings.Contains(got.err, says) {
				t.Errorf("want %q: code %d, prints %q, says %q", says, got.code, got.out, got.err)
			}
		}
	})
}

// TestOddFolders: a path may contain blanks and non-ASCII letters.
func TestOddFolders(t *testing.T) {
	plain := examples(t)["basic"]
	odd := filepath.Join(t.TempDir(), "Flotte für Äpfel & Birnen", "été 'n' \"co\"")
	if err := os.CopyFS(odd, os.DirFS(plain)); err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, cmd *cobra.Command) {
		args, asks := given(cmd, plain, "prod")
		if asks || len(args) == 0 || cmd.Name() == "adopt" || cmd.Name() == "vendor" {
			return // adopt and vendor access a cluster and a registry
		}
		other, _ := given(cmd, odd, "prod")
		want, got := plumbline(t, line(cmd, args...)...), plumbline(t, line(cmd, other...)...)
		graceful(t, got)
		if got.code != want.code || (got.err == "") != (want.err == "") {
			t.Errorf("code %d, says %q; otherwise code %d, says %q", got.code, got.err, want.code, want.err)
		}
	})
}

// TestClosedOutput: if the output cannot be written, the command reports that once.
func TestClosedOutput(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	each(t, func(t *testing.T, cmd *cobra.Command) {
		read, write := io.Pipe()
		if err := read.Close(); err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		args, _ := given(cmd, examples(t)["basic"], "prod")
		root := newRootCommand()
		root.SetArgs(line(cmd, append(args, "--kubeconfig", kubeconfig)...))
		root.SetOut(write)
		root.SetErr(&errs)
		code := exitCode(root.ExecuteContext(t.Context()), &errs)
		graceful(t, said{code: code, err: errs.String()})
	})
}

// TestWithoutPlumbline: a command that reads other kinds than NodeSyncs reports that plumbline is missing, too.
func TestWithoutPlumbline(t *testing.T) {
	s, kubeconfig := serve(t)
	s.refused["/apis/plumbline.dev"] = http.StatusNotFound
	for _, args := range [][]string{{"get"}, {"logs"}, {"history"}, {"why", "i-1"}} {
		got := plumbline(t, append(args, "--kubeconfig", kubeconfig)...)
		if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, "plumbline is not installed in this cluster") {
			t.Errorf("%v: code %d, prints %q, says %q", args, got.code, got.out, got.err)
		}
	}
}
