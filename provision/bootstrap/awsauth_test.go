package bootstrap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const joined = "arn:aws:iam::111122223333:role/team/KarpenterNodeRole-production"

// TestMergeAuth: the text before the new entry stays, and the entry can be removed again.
func TestMergeAuth(t *testing.T) {
	theirs := "# managed by platform\n- rolearn: arn:aws:iam::111122223333:role/ng\n  username: system:node:{{EC2PrivateDNSName}}\n  groups: [system:bootstrappers, system:nodes]"
	for name, mapRoles := range map[string]string{
		"empty": "", "others": theirs + "\n", "no newline": theirs,
		"indented": "  - groups:\n    - system:nodes\n    rolearn: arn:aws:iam::111122223333:role/ng\n    username: x\n",
	} {
		t.Run(name, func(t *testing.T) {
			merged, err := MergeAuth(mapRoles, joined)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(merged, strings.TrimRight(mapRoles, "\n")) || !strings.Contains(merged, "role/KarpenterNodeRole-production\n") {
				t.Errorf("merged:\n%s", merged)
			}
			if again, err := MergeAuth(merged, joined); err != nil || again != merged {
				t.Errorf("again: %v\n%s", err, again)
			}
			want := mapRoles
			if want != "" {
				want = strings.TrimRight(want, "\n") + "\n"
			}
			if diff := cmp.Diff(want, RemoveAuth(merged, joined)); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
	for name, c := range map[string]struct{ mapRoles, fails string }{
		"no list":      {"rolearn: x", "is malformed, and is not changed"},
		"no YAML":      {"- rolearn: [", "is malformed, and is not changed"},
		"no role":      {"- username: x\n", "entry 1 has no rolearn"},
		"flow style":   {"[{rolearn: a, username: b, groups: []}]", "add it yourself"},
		"other groups": {"- rolearn: arn:aws:iam::111122223333:role/KarpenterNodeRole-production\n  groups: [admins]\n", "are not those of nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			if merged, err := MergeAuth(c.mapRoles, joined); err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v, want %q\n%s", err, c.fails, merged)
			}
			if got := RemoveAuth(c.mapRoles, joined); got != c.mapRoles {
				t.Errorf("changed to %q", got)
			}
		})
	}
}
