package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// unreachable is a kubeconfig of a server that does not listen.
func unreachable(t *testing.T) (kubeconfig, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return kubeconfigFor(t, "http://"+address), address
}

// onCluster are the commands that need one.
func onCluster(t *testing.T) map[string][]string {
	t.Helper()
	return map[string][]string{
		"get":          {"get"},
		"get one":      {"get", "prod"},
		"get all":      {"get", "-A", "-o", "json"},
		"status":       {"status", "prod"},
		"reconcile":    {"reconcile", "prod", "--wait"},
		"suspend":      {"suspend", "prod"},
		"resume":       {"resume", "prod"},
		"approve":      {"approve", "prod"},
		"calendar":     {"calendar", "prod"},
		"plan":         {"plan", "prod"},
		"diff":         {"diff", "prod"},
		"plan against": {"plan", examples(t)["basic"], "--against", "prod"},
	}
}

func TestNoClusterReachable(t *testing.T) {
	kubeconfig, address := unreachable(t)
	for name, args := range onCluster(t) {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append(args, "--kubeconfig", kubeconfig)...)
			if got.code != exitFailed || got.out != "" {
				t.Errorf("code %d, prints %q", got.code, got.out)
			}
			for _, words := range []string{"plumbline: ", address, "--kubeconfig"} {
				if !strings.Contains(got.err, words) {
					t.Errorf("says %q, want %q in it", got.err, words)
				}
			}
			if strings.Count(got.err, "\n") != 1 {
				t.Errorf("says more than one line:\n%s", got.err)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	for name, args := range onCluster(t) {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, append(args, "--kubeconfig", t.TempDir()+"/absent")...)
			if got.code != exitFailed || !strings.Contains(got.err, "--kubeconfig") {
				t.Errorf("code %d, says %q", got.code, got.err)
			}
		})
	}
}

// TestWithoutAKubeconfig: the files that were looked for are named, and localhost is not asked.
func TestWithoutAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	absent := filepath.Join(dir, "absent äö")
	t.Setenv("KUBECONFIG", absent)
	for _, args := range [][]string{{"get"}, {"status", "prod"}, {"plan", "prod"}, {"plan", "nodesync/prod"}, {"tree", "prod"}} {
		if got := plumbline(t, args...); got.code != exitFailed || got.err != "plumbline: no kubeconfig: looked for "+absent+"; give one with --kubeconfig or KUBECONFIG\n" {
			t.Errorf("%v: code %d: %s", args, got.code, got.err)
		}
	}
}
