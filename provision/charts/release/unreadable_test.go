package release

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// cutOff leaves half of a revision's Secret.
func (b *bed) cutOff(secret string) {
	b.Helper()
	object := b.api.get(secretsPath + secret)
	data := object["data"].(map[string]any)
	release := data["release"].(string)
	data["release"] = release[:len(release)/8*4]
	b.api.put(secretsPath+secret, object)
}

// TestARevisionThatCannotBeReadIsMadeAnew: Helm would try to make it for ever, under
// a name that is taken. No object but the Secret is deleted.
func TestARevisionThatCannotBeReadIsMadeAnew(t *testing.T) {
	const first, second = "sh.helm.release.v1.karpenter.v1", "sh.helm.release.v1.karpenter.v2"
	tests := map[string]struct {
		damage   func(*bed)
		revision int
	}{
		"the last one": {func(b *bed) { b.cutOff(second) }, 2},
		"the last one, killed at it": {func(b *bed) {
			b.setStatus(second, "pending-upgrade")
			b.cutOff(second)
		}, 2},
		"all": {func(b *bed) {
			b.cutOff(first)
			b.cutOff(second)
		}, 1},
		"an earlier one": {func(b *bed) { b.cutOff(first) }, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			b.want.Values = map[string]any{"replicas": 3}
			if _, err := b.controller(); err != nil {
				t.Fatal(err)
			}
			test.damage(b)
			b.api.takeWrites()
			result, err := b.controller()
			if err != nil || result.Revision != test.revision {
				t.Fatalf("EnsureController() = %+v, %v; want revision %d", result, err, test.revision)
			}
			for _, write := range b.api.takeWrites() {
				if strings.HasPrefix(write, http.MethodDelete) && !strings.Contains(write, "/secrets/") {
					t.Errorf("it deleted: %s", write)
				}
			}
			if state := b.state(); state.Controller.Status != Deployed || state.Controller.Edited || state.Controller.Revision != test.revision {
				t.Errorf("state = %+v", state.Controller)
			}
			if result, err := b.controller(); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

// TestARollbackPassesOverWhatCannotBeRead: Helm panics where it is asked for such a
// revision by its number.
func TestARollbackPassesOverWhatCannotBeRead(t *testing.T) {
	b := newBed(t)
	b.both()
	b.want.Values = map[string]any{"replicas": 3}
	if _, err := b.controller(); err != nil {
		t.Fatal(err)
	}
	b.cutOff("sh.helm.release.v1.karpenter.v2")
	result, err := b.installer.RollBack(b.Context(), b.want, 1)
	if err != nil || !result.Changed || result.Revision != 2 {
		t.Fatalf("RollBack() = %+v, %v", result, err)
	}
	// That Git once asked for three stood in what cannot be read: it could as well
	// be whoever scales.
	if spec := b.api.get(deploymentPath)["spec"].(map[string]any); spec["replicas"] != float64(3) {
		t.Errorf("the Deployment has %v", spec)
	}
	if last := b.state().Controller; last.Status != Deployed || last.Edited {
		t.Errorf("the release is %+v", last)
	}
	b.cutOff("sh.helm.release.v1.karpenter.v1")
	if _, err := b.installer.RollBack(b.Context(), b.want, 1); err == nil || !strings.Contains(err.Error(), "revision 1 of helm release karpenter no longer exists") {
		t.Errorf("RollBack to what cannot be read: %v", err)
	}
}

// TestSomebodyElsesUnreadableRevisionIsLeftAlone until it is asked for.
func TestSomebodyElsesUnreadableRevisionIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.api.put(secretsPath+"sh.helm.release.v1.karpenter.v1", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{
			"name":   "sh.helm.release.v1.karpenter.v1",
			"labels": map[string]any{"owner": "helm", "name": "karpenter", "version": "1", "status": "deployed"},
		},
	})
	if _, err := b.controller(); err == nil {
		t.Error("it was touched unasked")
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
	b.want.Adopt = true
	if result, err := b.controller(); err != nil || result.Revision != 1 {
		t.Errorf("EnsureController() = %+v, %v", result, err)
	}
	if writes := b.api.takeWrites(); !slices.Contains(writes, "DELETE "+secretsPath+"sh.helm.release.v1.karpenter.v1") {
		t.Errorf("it wrote %v", writes)
	}
}
