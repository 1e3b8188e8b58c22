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

// malformed are aliases of AMIs on which Karpenter's library ends the process that asks for the
// hash of their class. A CRD accepts "bottlerocket@v1@v2", and one without the rules of today any.
var malformed = []string{"al2023", "@latest", "bottlerocket@v1@v2", "plan9@latest", "AL2023@latest", "@", "al2023@latest@"}

// TestMalformedAliasesInAPlan ends with its process where a Plan asks Karpenter's library about one.
// What such a class does to nodes is not known: the guard counts all of them.
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

// upTos are the Changes of a Plan with the most nodes that they may be on, and why not exactly.
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

// TestMalformedAliasesThatLive: which NodeClaims of such a class are outdated is not counted, and goes
// by what Karpenter has noted.
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
