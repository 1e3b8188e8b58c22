package propose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

func proposalOf(verify *v1alpha1.GitVerification, why string) proposal {
	return proposal{
		Look:   Look{Sync: syncOf(func(n *v1alpha1.NodeSync) { n.Spec.Source.Git.Verify = verify }), Cluster: "prod"},
		revert: revert{From: good, Bad: bad, Pools: []string{"a", "b"}, Why: why},
	}
}

// TestBody says what is taken back, and what is not known or lost by it.
func TestBody(t *testing.T) {
	got := proposalOf(nil, "no node joins @team <img>\n# x `y`").body(source.Reverted{
		Files: []string{"fleet/a.yaml", "fleet/b`c.yaml"}, Newer: []string{"fleet/a.yaml"}, More: true,
		Undone: []source.Undone{{Commit: strings.Repeat("3", 40), Subject: "closes #1 [x](http://evil)"}},
	})
	for _, want := range []string{
		"rollout of `main@sha1:22222222` in the cluster `prod`, in `NodePool/a`, `NodePool/b`: `no node joins @team <img> # x 'y'`.",
		"back to what they were in `main@sha1:11111111`",
		"`plumbline resume-rollout prod.eu`",
		"Files:\n\n- `fleet/a.yaml`\n- `fleet/b'c.yaml`\n\n",
		"- 33333333 `closes #1 [x](http://evil)`\n",
		"There may be others",
		"**Changed again since then.** What newer commits have changed in these files is taken back with it:\n\n- `fleet/a.yaml`\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "signed") {
		t.Errorf("no signature is wanted:\n%s", got)
	}
	var many []string
	for i := range mostListed + 7 {
		many = append(many, fmt.Sprintf("fleet/%d.yaml", i))
	}
	if got := proposalOf(nil, "x").body(source.Reverted{Files: many}); !strings.Contains(got, "- and 7 more\n") || strings.Contains(got, "Commits whose") || strings.Contains(got, "Changed again") {
		t.Errorf("many files:\n%s", got)
	}
}

// TestLongBodies: no names of files and no subjects make a text that GitHub refuses.
func TestLongBodies(t *testing.T) {
	var all source.Reverted
	for i := range mostListed {
		name := fmt.Sprintf("fleet/%d%s", i, strings.Repeat("/long", 900))
		all.Files, all.Newer = append(all.Files, name), append(all.Newer, name)
		all.Undone = append(all.Undone, source.Undone{Commit: strings.Repeat("3", 40), Subject: strings.Repeat("many words ", 100)})
	}
	got := proposalOf(&v1alpha1.GitVerification{}, "x").body(all)
	if len(got) > 65_536 || !strings.Contains(got, "too long for a pull request") || !strings.Contains(got, "**The commit is not signed**") {
		t.Errorf("%d bytes:\n%s", len(got), got[max(0, len(got)-500):])
	}
}

// TestUnsigned: where signatures are verified, the pull request says who has to sign.
func TestUnsigned(t *testing.T) {
	for mode, want := range map[v1alpha1.VerificationMode]string{
		v1alpha1.VerifyHEAD: "merge it with a commit that a trusted key has signed", v1alpha1.VerifyRange: "wants each commit signed",
	} {
		if got := proposalOf(&v1alpha1.GitVerification{Mode: mode}, "x").body(source.Reverted{}); !strings.Contains(got, "**The commit is not signed**") || !strings.Contains(got, want) {
			t.Errorf("%s:\n%s", mode, got)
		}
	}
}
