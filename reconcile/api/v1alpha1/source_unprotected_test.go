package v1alpha1_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func TestUnprotected(t *testing.T) {
	for url, want := range map[string]bool{
		"http://git.example.com/fleet.git":      true,
		"http://gitea.gitea.svc:3000/fleet.git": true,
		"http://localhost.example.com/f.git":    true,
		"https://git.example.com/fleet.git":     false,
		"ssh://git@git.example.com/fleet.git":   false,
		"http://127.0.0.1:3000/fleet.git":       false,
		"http://[::1]:3000/fleet.git":           false,
		"http://localhost:3000/fleet.git":       false,
	} {
		source := v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url}}
		if got := source.Unprotected(); got != want {
			t.Errorf("%s: unprotected is %t, want %t", url, got, want)
		}
		source.Git.Verify = &v1alpha1.GitVerification{}
		if source.Unprotected() {
			t.Errorf("%s with verify: unprotected", url)
		}
	}
	if (v1alpha1.Source{SourceRef: &v1alpha1.SourceRef{}}).Unprotected() {
		t.Error("a source of Flux: unprotected")
	}
}
