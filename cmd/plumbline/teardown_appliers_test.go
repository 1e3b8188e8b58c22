package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// TestTeardownSuspendsAppliers only where it is asked for, after the confirmation and before anything is deleted.
func TestTeardownSuspendsAppliers(t *testing.T) {
	const nodes, second = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/fleet", "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/team/kustomizations/fleet"
	kustomization := func(namespace string) map[string]any {
		return map[string]any{
			"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
			"metadata": map[string]any{"name": "fleet", "namespace": namespace}, "spec": map[string]any{"path": "./nodes"},
		}
	}
	for name, c := range map[string]struct {
		args    []string
		two     bool
		refused bool
		code    int
		did     []string
		says    string
	}{
		"not asked for": {code: exitDone, did: []string{"patch " + leavingPath, "delete " + leavingPath}},
		"asked for": {
			args: []string{"--suspend-appliers"}, code: exitDone, did: []string{"patch " + nodes, "patch " + leavingPath, "delete " + leavingPath},
			says: "Flux's Kustomization fleet is suspended; to take that back: flux resume kustomization fleet --namespace flux-system",
		},
		"which one is not known": {args: []string{"--suspend-appliers"}, two: true, code: exitFailed, says: "there is one in flux-system and one in team: suspend the right one yourself"},
		"not allowed":            {args: []string{"--suspend-appliers"}, refused: true, code: exitFailed, says: "suspend Flux's Kustomization fleet (nothing was deleted)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, kubeconfig, _ := fleetToLeave(t)
			s.objects[nodes] = kustomization("flux-system")
			if c.two {
				s.objects[second] = kustomization("team")
			}
			if c.refused {
				s.refused = map[string]int{nodes: 403}
			}
			done := endsAtOnce(s)
			aws := &remainsOf{account: "111122223333", answers: [][]cloud.Answer{nothingLeft}}
			got := teardownWith(t.Context(), t, aws, append([]string{"prod", "--yes", "--kubeconfig", kubeconfig}, c.args...)...)
			if got.code != c.code || !slices.Equal(*done, c.did) || !strings.Contains(got.err, c.says) {
				t.Errorf("code %d, did %q, says %s", got.code, *done, got.err)
			}
		})
	}
}
