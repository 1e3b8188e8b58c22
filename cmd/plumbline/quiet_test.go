package main

import (
	"strings"
	"testing"
)

// TestQuiet: stderr contains nothing but errors.
func TestQuiet(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	pods := folder(t, map[string]string{"plumbline.yaml": karpenterYAML + "ignoreKinds: [Pod]\n", "a.yaml": classYAML + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"})
	for _, c := range []struct {
		args  []string
		quiet bool
	}{
		{[]string{"suspend", "prod", "--kubeconfig", kubeconfig}, false},
		{[]string{"resume", "prod", "--kubeconfig", kubeconfig, "--quiet"}, true},
		{[]string{"render", pods}, false},
		{[]string{"render", pods, "-q"}, true},
	} {
		if got := plumbline(t, c.args...); got.code != exitDone || (got.err == "") != c.quiet {
			t.Errorf("%v: code %d, says %q", c.args, got.code, got.err)
		}
	}
	if got := plumbline(t, "status", "absent", "-q", "--kubeconfig", kubeconfig); got.code != exitFailed || !strings.Contains(got.err, "does not exist") {
		t.Errorf("an error: code %d, says %q", got.code, got.err)
	}
}
