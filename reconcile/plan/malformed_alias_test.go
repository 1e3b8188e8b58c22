package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// malformed are AMI aliases for which Karpenter's library terminates the process when it hashes their class. A CRD
// accepts "bottlerocket@v1@v2", and a CRD without the current rules accepts any.
var malformed = []string{"al2023", "@latest", "bottlerocket@v1@v2", "plan9@latest", "AL2023@latest", "@", "al2023@latest@"}

// TestMalformedAliasesInAPlan would terminate its process if a Plan hashed one with Karpenter's library. The effect of
// such a class on nodes is unknown, so the guard counts all of them.
func TestMalformedAliasesInAPlan(t *testing.T) {
	const unread = "an alias in amiSelectorTerms cannot be parsed"
	good := class("default")
	for _, alias := range malformed {
		bad := strings.Replace(good, "al2023@latest", "'"+alias+"'", 1)
		for name, test := range map[string]struct {
			live, git string
			want      string
		}{
			"in Git":                    {good, bad, "Update up to 3 " + unread},
			"in the cluster":            {bad, good, "Update up to 3 " + unread},
			"in both":                   {bad, strings.Replace(bad, "  role:", "  userData: hello\n  role:", 1), "Update up to 3 " + unread},
			"in both, and nothing else": {bad, bad, ""},
		} {
			t.Run(alias+" "+name, func(t *testing.T) {
				c := newCluster(t)
				c.policy.CABundle = bundle
				c.have(t, owner, test.live, pool("general", "default"))
				notes := c.notes(t, good)
				c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
				c.live.NodeClaims = claims("general", 3, func(n *plan.NodeClaim) { n.Hashes = plan.HashesOf(notes) })

				limit := intstr.FromInt32(2)
				c.policy.Guard.MaxDisruptedNodes = &limit
				held := c.plan(t, test.git, pool("general", "default"))
				limit = intstr.FromInt32(3)
				planned := c.plan(t, test.git, pool("general", "default"))
				if diff := cmp.Diff(test.want, strings.Join(upTos(planned), "; ")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(strings.Replace(test.want, "Update", "Hold", 1), strings.Join(upTos(held), "; ")); diff != "" {
					t.Errorf("with the guard's limit (-want +got):\n%s", diff)
				}
				if asked := planned.Questions(); (len(asked) != 0) != (name == "in the cluster") {
					t.Errorf("AWS is asked %+v", asked)
				}
			})
		}
	}
}

// upTos lists the Changes of a Plan with the upper limit of nodes, and why it is not exact.
func upTos(p *plan.Plan) (found []string) {
	for _, c := range p.Changes {
		exact := "exactly"
		if c.UpTo {
			exact = "up to"
		}
		found = append(found, fmt.Sprintf("%s %s %d %s", c.Action, exact, c.Nodes, c.Unavailable))
	}
	return found
}

// TestMalformedAliasesThatLive: drift of NodeClaims of such a class is not computed, but read from Karpenter's
// annotations.
func TestMalformedAliasesThatLive(t *testing.T) {
	for _, alias := range malformed {
		c := newCluster(t)
		good := class("default")
		c.have(t, owner, strings.Replace(good, "al2023@latest", "'"+alias+"'", 1), pool("general", "default"))
		notes := c.notes(t, good)
		c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
		c.resolve(t, "default", "ami-1")
		live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: claims("general", 1, func(n *plan.NodeClaim) {
			n.ProviderID, n.Image, n.Hashes = "aws:///a/i-1", "ami-1", plan.HashesOf(notes)
		})}
		for _, ref := range []render.Ref{poolRef("general"), classRef("default")} {
			live.Objects[ref] = plan.NewObject(c.Object(ref))
		}
		found := plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: &plan.MatchMemory{}}.Outdated([]*plan.Object{live.Objects[poolRef("general")]})
		if diff := cmp.Diff([]string{"unsure"}, matched(found)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", alias, diff)
		}
	}
}
